"""Pulsar's brokers of others as a target, by a file."""
