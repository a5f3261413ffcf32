"""All of it on real brokers."""
