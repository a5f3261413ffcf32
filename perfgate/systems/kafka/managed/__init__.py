"""Kafka clusters that the suite starts itself, as processes and in containers, and what can be done to them."""
