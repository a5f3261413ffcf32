"""Requests to Pulsar's brokers over their web service. This module imports nothing: load hosts have few packages."""

TOKEN_PLUGINS = ("token", "org.apache.pulsar.client.impl.auth.AuthenticationToken")
TLS_PLUGINS = ("tls", "org.apache.pulsar.client.impl.auth.AuthenticationTls")
"""Names of the log-in plugins that every client of the suite has: libpulsar's, and Java's class."""


def servers_of(service_url: str) -> tuple[str, ...]:
    """host:port of each server of a service URL."""
    return tuple(service_url.partition("#")[0].partition("://")[2].rstrip("/").split(","))
