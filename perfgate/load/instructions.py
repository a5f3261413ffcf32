"""Instructions for generator processes: their shares of a scenario's load, and a system's additions."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perfgate.load.payload import is_compact, run_tag
from perfgate.model import Consumers, Scenario
from perfgate.model.declared import topic_names
from perfgate.model.load import Batching, LoadSpec

READY_TIMEOUT_S = 45
DRAIN_MARGIN_S = 10
MARGIN_S = 900.0
"""A load that nobody ends lasts this much longer than it should, and no more."""
PRODUCE, CONSUME = "producer", "consumer"

Requests = dict[str, dict[str, Any]]
"""Instructions of each process, by its name."""


class Instructions(ABC):
    """A system's instructions for its generator processes, and the meaning of its settings."""

    system: str
    """The folder of its clients: ``perfgate.systems.<system>.load.clients``."""
    engine: str
    """The engine's name."""
    buffer_settings: tuple[str, ...]
    """The settings that bound a producer's buffer."""

    @abstractmethod
    def producer(self, spec: LoadSpec) -> Mapping[str, object]:
        """The system's part of the instructions of producers.

        "client", its client's settings, and "client_path", a folder that holds the client (the installed one unless
        stated); "buffer_bytes" and "buffer_records", which the client's buffer holds at most; "compressed", whether
        batches are; "lingers", whether batches wait to become fuller.
        """

    @abstractmethod
    def consumer(self, spec: LoadSpec, consumers: Consumers, group: str) -> Mapping[str, object]:
        """That of a group's consumers: "client", "client_path"; "share", whether each record goes to any member.

        Where offsets of a partition have gaps, "followed" False.
        """

    @abstractmethod
    def batching(self, scenario: Scenario) -> Batching:
        """How the scenario's producers batch."""

    @abstractmethod
    def buffered(self, scenario: Scenario, buffer_kib: int) -> Scenario:
        """The scenario with producers whose buffer holds `buffer_kib`."""

    @abstractmethod
    def drain_s_of(self, scenario: Scenario) -> float:
        """Time for the outcomes of a producer's records in the end, in s."""

    @abstractmethod
    def cannot(self, scenario: Scenario) -> str | None:
        """The reason why these clients cannot run the scenario; None when they can."""

    @abstractmethod
    def by_hand(self, scenario: Scenario) -> str:
        """A command that repeats the scenario's load without this suite."""

    @abstractmethod
    def keeps_what_was_read(self, scenario: Scenario) -> bool:
        """Whether the log may never be truncated to before a record that a consumer has received."""

    def producers_of(self, spec: LoadSpec) -> Requests:
        scenario, load = spec.scenario, spec.scenario.load
        request = {
            **self._common(spec, "produce"),
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
            "seed": spec.seed,
            "drain_s": self.drain_s_of(scenario),
            "clients": scenario.threads,
            "of": scenario.producers * scenario.threads,
            **self.producer(spec),
        }
        firsts = range(0, scenario.producers * scenario.threads, scenario.threads)
        return {f"{PRODUCE}-{n}": {**request, "first": first} for n, first in enumerate(firsts, 1)}

    def consumers_of(self, spec: LoadSpec) -> Requests:
        """Instructions of each consumer process; those of a group are consecutive."""
        scenario, consumers = spec.scenario, spec.scenario.consumers
        if consumers is None:
            return {}
        backlog = not scenario.load.sends
        assigned = consumers.membership == "assigned"
        count = consumers.processes * consumers.threads
        shares = [list(range(number, scenario.topic.in_all, count)) for number in range(count)] * consumers.groups
        request = {
            **self._common(spec, "consume"),
            "assigned": shares if assigned else None,
            "share": False,
            "laps": backlog,
            "compact_bytes": scenario.record_bytes if is_compact(scenario.payload, scenario.record_bytes) else 0,
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
                **self.consumer(spec, consumers, group_of(spec.topic, number // consumers.processes)),
                "first": number * consumers.threads,
            }
            for number in range(consumers.groups * consumers.processes)
        }

    def _common(self, spec: LoadSpec, role: str) -> dict[str, object]:
        scenario = spec.scenario
        return {
            "role": role,
            "system": self.system,
            "client_path": "",
            "topics": topic_names(spec.topic, scenario.topic.count),
            "partitions": scenario.topic.in_all,
            "run": run_tag(spec.run_id),
            "most_s": spec.warmup_max_s + spec.window_s + self.drain_s_of(scenario) + MARGIN_S,
            # By these both sides know each record's length.
            **({"sizes": asdict(scenario.sizes)} if scenario.sizes else {}),
        }


def paired(producers: Requests, consumers: Requests) -> bool:
    """Let each producer process write the partitions that the consumer of its number reads; return whether possible.

    It is where there are as many of both, partitions are assigned, as many to each, and no keys choose them. The load
    is the same; with the processes on many hosts, each host reads its own records: end-to-end latency needs one clock.
    """
    shares = [
        sorted(itertools.chain.from_iterable((each["assigned"] or [])[each["first"] :][: each["clients"]]))
        for each in consumers.values()
    ]
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


def group_of(topic: str, number: int) -> str:
    """Name of a topic's consumer group: the topic's own, with a number from the second group on."""
    return f"{topic}-{number + 1}" if number else topic
