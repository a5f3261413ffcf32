"""A Kafka client for everything but load: topics, settings, key stores, round trips."""
