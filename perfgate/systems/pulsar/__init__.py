"""Apache Pulsar: all code that is specific to it."""
