"""Pulsar's brokers of other owners as a target, by a file."""
