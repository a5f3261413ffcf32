"""Names of the ways to log in that every client of the suite has. Imports nothing: load hosts have few packages."""

TOKEN_PLUGINS = ("token", "org.apache.pulsar.client.impl.auth.AuthenticationToken")
TLS_PLUGINS = ("tls", "org.apache.pulsar.client.impl.auth.AuthenticationTls")
