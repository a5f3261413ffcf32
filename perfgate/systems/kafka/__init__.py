"""Kafka: clusters of our own and real ones, clients, load, and what is watched of it."""
