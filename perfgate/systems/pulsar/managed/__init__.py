"""Clusters of Pulsar that this suite starts itself."""
