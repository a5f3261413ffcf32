"""Requests to Pulsar's brokers over their web service.

What a cluster offers of it: :mod:`perfgate.systems.pulsar.client.topics` and
:mod:`perfgate.systems.pulsar.client.live_settings`. This module imports nothing: load hosts have few packages.
"""

TOKEN_PLUGINS = ("token", "org.apache.pulsar.client.impl.auth.AuthenticationToken")
TLS_PLUGINS = ("tls", "org.apache.pulsar.client.impl.auth.AuthenticationTls")
"""Names of the ways to log in that every client of the suite has: libpulsar's, and Java's class."""
