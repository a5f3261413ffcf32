"""The load: libpulsar in generator processes (perfgate.systems.pulsar.load.clients), and the official tool."""
