"""The load: libpulsar in generator processes, and the official tool.

perfgate.systems.pulsar.load.libpulsar is the driver, perfgate.systems.pulsar.load.clients its processes' clients.
"""
