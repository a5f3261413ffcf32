"""Delivery, by system: what is promised of acknowledged records, and which errors come of late brokers. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from perfgate.model.declared import Scenario

DEDUPLICATION = "deduplicationEnabled"
"""The namespace policy by which Pulsar's brokers drop what a producer sends again."""
LATE = re.compile(
    r"\w*TIMED_OUT(_QUEUE)?|NOT_ENOUGH_REPLICAS\w*|(told: )?((Timeout|NotEnoughReplicas\w*)Exception(, )?)+|TimeOut"
)
"""Names of the errors of brokers that get no processor time, or of no answer: librdkafka's, the Java clients' and
libpulsar's."""
TIMED_OUT = re.compile("_MSG_TIMED_OUT|REQUEST_TIMED_OUT|TimeOut")
"""Names of the errors of records that time out, at the client or at a broker that waited for its followers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorCodes:
    """A client's codes of errors, as journals hold them.

    `timed_out`: of records that were not answered in time. `late`: these, and the answers of brokers without processor
    time.
    """

    client: str
    timed_out: tuple[int, ...]
    late: tuple[int, ...]


ERROR_CODES: Mapping[str, ErrorCodes] = {
    # _MSG_TIMED_OUT, _TIMED_OUT_QUEUE, REQUEST_TIMED_OUT; NOT_ENOUGH_REPLICAS before and after the append.
    "kafka": ErrorCodes(client="librdkafka", timed_out=(-192, -166, 7), late=(-192, -166, 7, 19, 20)),
    "pulsar": ErrorCodes(client="libpulsar", timed_out=(3,), late=(3,)),  # ResultTimeout
}


def is_promised(scenario: Scenario) -> bool:
    """Whether what brokers acknowledge is nowhere lost when a process of the cluster ends.

    Kafka: with acks=all all replicas in sync have it, with less the next leader may cut its log back. Pulsar: a bookie
    keeps what it has acknowledged, in the kernel's page cache at least, and reads it again after it was killed; no
    other bookie's log replaces it.
    """
    if scenario.cluster.system == "pulsar":
        return True
    return dict(scenario.producer).get("acks", "").lower() in ("all", "-1")


def is_idempotent(scenario: Scenario) -> bool:
    """Whether brokers drop what its producers send again; so they do of transactions."""
    if scenario.cluster.system == "pulsar":
        stated = dict(scenario.topic.config).get(DEDUPLICATION, "").lower()
        return bool(scenario.transaction_ms) or stated == "true"
    stated = dict(scenario.producer).get("enable.idempotence", "").lower()
    return bool(scenario.transaction_ms) or stated in ("true", "t", "1")  # in the words that clients take
