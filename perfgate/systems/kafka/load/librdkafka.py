"""The default driver of Kafka: the suite's engine with librdkafka's clients."""

from __future__ import annotations

from perfgate.load.engine import SuiteEngine
from perfgate.load.transport import Transport
from perfgate.systems.kafka.load.instructions import KafkaInstructions


class LibrdkafkaDriver(SuiteEngine):
    """See :class:`perfgate.model.load.Engine`."""

    def __init__(self, transport: Transport | None = None) -> None:
        """`transport`: where the generator processes of rounds run; None: on this host."""
        super().__init__(KafkaInstructions(), transport)
