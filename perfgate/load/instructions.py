"""Instructions for generator processes: their shares of a scenario's load, and a system's additions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from perfgate.load.payload import is_compact, run_tag
from perfgate.model import Scenario
from perfgate.model.declared import topic_names
from perfgate.model.load import Batching, LoadSpec

READY_TIMEOUT_S = 45
DRAIN_MARGIN_S = 10
MARGIN_S = 900.0
"""A load that nobody ends lasts this much longer than it should, and no more."""
PRODUCE, CONSUME = "producer", "consumer"

Requests = dict[str, dict[str, Any]]
"""Instructions of each process, by its name."""


class Instructions(Protocol):
    """A system's instructions for its generator processes, and the meaning of its settings."""

    @property
    def system(self) -> str:
        """The folder of its clients: ``perfgate.systems.<system>.load.clients``."""

    @property
    def engine(self) -> str:
        """The engine's name."""

    @property
    def buffer_settings(self) -> tuple[str, ...]:
        """The settings that bound a producer's buffer."""

    def batching(self, scenario: Scenario) -> Batching:
        """How the scenario's producers batch."""

    def buffered(self, scenario: Scenario, buffer_kib: int) -> Scenario:
        """The scenario with producers whose buffer holds `buffer_kib`."""

    def producers_of(self, spec: LoadSpec) -> Requests:
        """Instructions of each producer process: see :func:`producer_requests`."""

    def consumers_of(self, spec: LoadSpec) -> Requests:
        """Instructions of each consumer process: see :func:`consumer_requests`."""

    def drain_s_of(self, scenario: Scenario) -> float:
        """Time for the outcomes of a producer's records in the end, in s."""

    def cannot(self, scenario: Scenario) -> str | None:
        """The reason why these clients cannot run the scenario; None when they can."""

    def by_hand(self, scenario: Scenario) -> str:
        """A command that repeats the scenario's load without this suite."""

    def keeps_what_was_read(self, scenario: Scenario) -> bool:
        """Whether the log may never be truncated to before a record that a consumer has received."""


def producer_requests(spec: LoadSpec, own: Mapping[str, object], drain_s: float) -> Requests:
    """Instructions of each producer process.

    `own` is the system's: "system"; "client", its client's settings, and "client_path", a folder that holds the client
    (empty: the installed one); "buffer_bytes" and "buffer_records", which the client's buffer holds at most;
    "compressed", whether batches are; "lingers", whether batches wait to become fuller. `drain_s`: for the outcomes.
    """
    scenario, load = spec.scenario, spec.scenario.load
    request = {
        **_common(spec, "produce", drain_s),
        "transaction_ms": scenario.transaction_ms,
        # The same for a client of this number in every round of the run: brokers keep each for days.
        "transactional_id": f"{spec.prefix}{spec.run_id}",
        "paced": load.open_loop,
        "rate": load.rate,
        "most_rate": spec.most_rate if spec.most_rate < math.inf else 0.0,
        "records": 0,
        **({"shape": {"points": load.shape.points, "phases": load.shape.phases}} if load.shape else {}),
        "record_bytes": scenario.record_bytes,
        "payload": asdict(scenario.payload),
        "keys": asdict(scenario.keys),
        **_sizes_of(scenario),
        "seed": spec.seed,
        "drain_s": drain_s,
        "clients": scenario.threads,
        "of": scenario.producers * scenario.threads,
        **own,
    }
    firsts = range(0, scenario.producers * scenario.threads, scenario.threads)
    return {f"{PRODUCE}-{n}": {**request, "first": first} for n, first in enumerate(firsts, 1)}


def _sizes_of(scenario: Scenario) -> dict[str, object]:
    """Sizes by which both sides know each record's length; nothing where all records have the same."""
    return {"sizes": asdict(scenario.sizes)} if scenario.sizes else {}


def consumer_requests(spec: LoadSpec, own: Callable[[str], Mapping[str, object]], drain_s: float) -> Requests:
    """Instructions of each consumer process; those of a group are consecutive.

    `own` is the system's, for the group of this name: "system", "client" and "client_path" as for producers; "share",
    whether each record goes to any member, in no order; where offsets of a partition have gaps, "followed" False.
    """
    scenario, consumers = spec.scenario, spec.scenario.consumers
    if consumers is None:
        return {}
    backlog = not scenario.load.sends
    assigned = consumers.membership == "assigned"
    count = consumers.processes * consumers.threads
    shares = [list(range(number, scenario.topic.in_all, count)) for number in range(count)] * consumers.groups
    request = {
        **_common(spec, "consume", drain_s),
        "assigned": shares if assigned else None,
        "share": False,
        "laps": backlog,
        "compact_bytes": scenario.record_bytes if is_compact(scenario.payload, scenario.record_bytes) else 0,
        **_sizes_of(scenario),
        "paced_rate": scenario.load.rate if scenario.load.open_loop else 0.0,
        # Transaction markers are positions that no consumer receives.
        "followed": assigned and not scenario.transaction_ms,
        "producers": 1 if backlog else scenario.producers * scenario.threads,
        "work": {
            "ms": consumers.work_ms,
            "sigma": consumers.work_sigma,
            "per": consumers.work_per,
            "pauses": consumers.pauses,
            "seed": spec.seed,
        }
        if consumers.work_ms
        else None,
        "clients": consumers.threads,
    }
    return {
        f"{CONSUME}-{number + 1}": {
            **request,
            **own(group_of(spec.topic, number // consumers.processes)),
            "first": number * consumers.threads,
        }
        for number in range(consumers.groups * consumers.processes)
    }


def paired(producers: Requests, consumers: Requests) -> bool:
    """Let each producer process write the partitions that the consumer of its number reads; return whether possible.

    It is where there are as many of both, partitions are assigned, as many to each, and no keys choose them. The load
    is the same; with the processes on many hosts, each host reads its own records: end-to-end latency needs one clock.
    """
    shares = [_read_by(consumer) for consumer in consumers.values()]
    if len(producers) != len(consumers) or len(set(map(len, shares))) != 1:
        return False
    partitions = sorted(itertools.chain.from_iterable(shares))  # of several groups each reads all
    if partitions != list(range(next(iter(producers.values()))["partitions"])):
        return False
    if any(producer["keys"]["kind"] != "none" for producer in producers.values()):
        return False
    for producer, share in zip(producers.values(), shares, strict=True):
        producer["own_partitions"] = share
    return True


def _read_by(consumer: Mapping[str, Any]) -> list[int]:
    shares = (consumer["assigned"] or [])[consumer["first"] :][: consumer["clients"]]
    return sorted(itertools.chain.from_iterable(shares))


def group_of(topic: str, number: int) -> str:
    """Name of a topic's consumer group: the topic's own, with a number from the second group on."""
    return f"{topic}-{number + 1}" if number else topic


def _common(spec: LoadSpec, role: str, drain_s: float) -> dict[str, object]:
    return {
        "role": role,
        "topics": topic_names(spec.topic, spec.scenario.topic.count),
        "partitions": spec.scenario.topic.in_all,
        "run": run_tag(spec.run_id),
        "most_s": spec.warmup_max_s + spec.window_s + drain_s + MARGIN_S,
    }
