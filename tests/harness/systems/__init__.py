"""Kafka: managed and attached, without brokers."""
