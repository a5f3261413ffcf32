"""Apache Pulsar: all that knows it."""
