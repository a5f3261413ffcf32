"""The default driver of Pulsar: the suite's engine with libpulsar's clients, their settings and limits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from perfgate.load.engine import SuiteEngine
from perfgate.load.instructions import Instructions
from perfgate.load.transport import Transport
from perfgate.model import KIB, Consumers, Scenario, with_settings
from perfgate.model.load import Batching, LoadSpec
from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.official import by_hand
from perfgate.systems.pulsar.load.settings import SERVICE_URL, most_pending, refuses, settings_of

SHARED = ("shared", "key-shared")
"""Types of subscriptions whose consumers receive any record of any partition."""
IN_FLIGHT = 1
"""Batches of a partition that must be in flight for its broker to have work. There is no bound in Pulsar; an entry is
written in 2 to 5 ms, in which 60 MB/s are 300 KiB over all partitions."""
DRAIN_S = 5


def subscription_of(group: str) -> str:
    """Name of the subscription of a group, which is named after its topic: without tenant and namespace."""
    return group.rpartition("/")[2]


class PulsarInstructions(Instructions):
    system, engine = "pulsar", "libpulsar"
    buffer_settings = ("maxPendingBytes", "maxPendingMessages")
    by_hand = staticmethod(by_hand)

    def batching(self, scenario: Scenario) -> Batching:
        client = settings_of(scenario.producer, "producer")
        batched = client["batchingEnabled"] == "true"
        return Batching(
            batch_bytes=int(client["batchingMaxBytes"]) if batched else scenario.record_bytes,
            in_flight=IN_FLIGHT,
            linger_s=int(client["batchingMaxPublishDelayMicros"]) / 1e6 if batched else 0.0,
            buffer_kib=int(client["maxPendingBytes"]) // KIB,
        )

    def buffered(self, scenario: Scenario, buffer_kib: int) -> Scenario:
        return replace(scenario, producer=with_settings(scenario.producer, {"maxPendingBytes": buffer_kib * KIB}))

    def producer(self, spec: LoadSpec) -> dict[str, object]:
        client = settings_of(spec.scenario.producer, "producer")
        records = most_pending(client, spec.scenario.topic.partitions)
        return {
            "client": _client(spec, client),
            "buffer_bytes": min(int(client["maxPendingBytes"]), records * spec.scenario.record_bytes),
            "buffer_records": records,
            "compressed": client["compressionType"] != "NONE",
            "lingers": True,  # there is nothing to rotate
        }

    def consumer(self, spec: LoadSpec, consumers: Consumers, group: str) -> dict[str, object]:
        kind = "exclusive" if consumers.membership == "assigned" else consumers.membership
        return {
            "client": _client(spec, settings_of(consumers.config, "consumer")),
            "subscription": subscription_of(group),
            "subscription_type": kind,
            "share": kind in SHARED,
            "followed": False,  # positions have gaps: sequence numbers show missing records
        }

    def drain_s_of(self, scenario: Scenario) -> float:
        return int(settings_of(scenario.producer, "producer")["sendTimeoutMs"]) / 1e3 + DRAIN_S

    def cannot(self, scenario: Scenario) -> str | None:
        if scenario.client_version:
            return "the load runs on the pulsar-client that is installed; client.version chooses one of Kafka's"
        if scenario.beside or scenario.topic.count > 1:
            return (
                "several topics and loads beside one another are made on Kafka alone: on Pulsar a topic's quorums are "
                "policies of the run's one namespace, which holds one topic at a time"
            )
        if scenario.crowd:
            return "crowds of connections are made of Kafka's protocol alone"
        if scenario.transaction_ms:
            return "libpulsar's C interface has no transactions"
        if scenario.load.sends and (reason := refuses(dict(scenario.producer), "producer")):
            return reason
        return _cannot_read(scenario) or None

    def keeps_what_was_read(self, scenario: Scenario) -> bool:
        """A consumer receives only entries that the ack quorum of bookies has, whatever the producer waits for."""
        return True


def _cannot_read(scenario: Scenario) -> str:
    if (consumers := scenario.consumers) is None:
        return ""
    if reason := refuses(dict(consumers.config), "consumer"):
        return reason
    if consumers.membership == "exclusive" and consumers.processes * consumers.threads > 1:
        return "an exclusive subscription has one consumer; membership assigned deals the partitions out to several"
    if not scenario.load.sends and consumers.membership in ("failover", *SHARED):
        return f"a backlog is read over and over, and a {consumers.membership} subscription rewinds all its consumers"
    batched = settings_of(scenario.producer, "producer")["batchingEnabled"] == "true"
    if consumers.membership == "key-shared" and scenario.load.sends and batched:
        return (
            "a batch goes to one consumer, whatever its keys, and libpulsar's C interface has no batches of one key: "
            "key-shared needs producer.batchingEnabled=false"
        )
    return ""


def _client(spec: LoadSpec, client: Mapping[str, str]) -> dict[str, str]:
    _warn_of_slow()
    # The scenario's own settings win: what is measured is what is declared.
    return {**dict(spec.security), **client, SERVICE_URL: spec.bootstrap}


@cache
def _warn_of_slow() -> None:
    """Compile the client, before its processes need it; warn where only the slow client can be used."""
    if reason := native.cannot_have():
        warnings.warn(f"{reason}: the load runs on the slow client, at about six times the CPU a record", stacklevel=3)


class LibpulsarDriver(SuiteEngine):
    def __init__(self, transport: Transport | None = None) -> None:
        super().__init__(PulsarInstructions(), transport)
