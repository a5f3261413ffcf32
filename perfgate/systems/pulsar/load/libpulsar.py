"""The default driver of Pulsar: the suite's engine with libpulsar's clients."""

from __future__ import annotations

from perfgate.load.engine import SuiteEngine
from perfgate.load.transport import Transport
from perfgate.systems.pulsar.load.instructions import PulsarInstructions


class LibpulsarDriver(SuiteEngine):
    """See :class:`perfgate.model.load.Engine`."""

    def __init__(self, transport: Transport | None = None) -> None:
        """`transport`: where the generator processes of rounds run; None: on this host."""
        super().__init__(PulsarInstructions(), transport)
