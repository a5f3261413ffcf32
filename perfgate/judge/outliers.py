"""Load hosts, partitions and brokers that differ from the others by more than chance. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from perfgate.judge.phrases import number
from perfgate.model import Measurement, Outcome, PartitionFigures, Round
from perfgate.model.histogram import latency_metrics

BY_CHANCE = 0.05
"""The largest chance that any host of a scenario is named where none differs."""
LEAST_FACTOR = 1.1
"""A smaller difference is not worth a line."""
QUESTIONS = 2

Figures = Sequence[Mapping[str, float]]
"""Of each round, a figure of every host (or partition, or broker) by its name; more is worse."""


def host_notes(measured: Mapping[str, Measurement]) -> list[str]:
    return [f"{name}: {line}" for name, measurement in measured.items() for line in differing_hosts(measurement.rounds)]


def differing_hosts(rounds: Sequence[Round]) -> list[str]:
    """A line for each host that was the worst of all in every round, in records a process or in p99."""
    # Those with a fault have no window for it; those without a valid load show nothing.
    reports = [r.hosts for r in rounds if r.hosts and r.failover is None and not r.invalid]
    slow = [
        {
            host.name: 1 / max(host.done_in_window / by, 1e-9)
            for host in hosts
            if (by := host.processes if host.done_by is None else host.done_by)
        }
        for hosts in reports
    ]
    late = [
        {
            host.name: latency["latency_ms.p99"]
            for host in hosts
            if host.latency_histogram and (latency := latency_metrics([host.latency_histogram]))
        }
        for hosts in reports
    ]
    return [
        f"load host {worst[0]}: its {words} in all {len(reports)} rounds, {number(worst[1])} x the others'"
        for figures, words in ((slow, "records a process are the fewest"), (late, "p99 is the highest"))
        if (worst := always_worst(figures))
    ]


def beside_reasons(outcome: Outcome, rounds: Sequence[Round]) -> list[str]:
    """The notes on a scenario's load hosts that its reasons do not have."""
    limit = outcome.more_hosts
    return [*([limit.words] if limit and limit.words not in outcome.reasons else []), *differing_hosts(rounds)]


def always_worst(figures: Figures, by_chance: float = BY_CHANCE / QUESTIONS) -> tuple[str, float] | None:
    """The host that is the worst in every round, and how many times the others' median figure its own is, if any is.

    Of hosts that do not differ the chance of it is hosts ** (1 - rounds), which must be at most `by_chance`.
    """
    if not figures or any(set(of_round) != set(figures[0]) or len(of_round) < 2 for of_round in figures):
        return None
    worst = [{name for name, value in of_round.items() if value == max(of_round.values())} for of_round in figures]
    if len(set.union(*worst)) > 1 or len(figures[0]) ** (1 - len(figures)) > by_chance:
        return None
    (name,) = worst[0]
    factor = statistics.median(
        of_round[name] / max(statistics.median(value for other, value in of_round.items() if other != name), 1e-9)
        for of_round in figures
    )
    return (name, factor) if factor >= LEAST_FACTOR else None


PARTITIONS_BY_CHANCE = 0.01
"""The same of partitions and brokers: a nightly has forty scenarios."""
PARTITION_QUESTIONS = 4
MOST_TOPICS = 3

Worse = Callable[[PartitionFigures], float]


def partition_notes(measured: Mapping[str, Measurement]) -> list[str]:
    return [
        f"{name}: {line}"
        for name, measurement in measured.items()
        for line in (*differing_partitions(measurement.rounds), *differing_topics(measurement.rounds))
    ]


def differing_topics(rounds: Sequence[Round]) -> list[str]:
    """A line for each figure of a topic that differed from the others', in the most rounds; MOST_TOPICS at most."""
    sound = [r for r in rounds if not r.invalid]
    times = Counter((topic.number, figure) for r in sound for topic in r.topics for figure in topic.differs)
    return [
        f"topic {number_:03d}: its {figure} differed from the other topics' in {often} of {len(sound)} rounds"
        for (number_, figure), often in times.most_common(MOST_TOPICS)
    ]


def differing_partitions(rounds: Sequence[Round]) -> list[str]:
    """A line for the broker, else the partition, that was the worst in every round, in records/s or in p99."""
    sound = [r for r in rounds if r.partitions and not r.invalid]
    timed = [r for r in sound if not r.spoilt("latency_ms.p99")]
    return [
        *_line("fewest records/s", sound, lambda partition: 1 / max(partition.records_per_s, 1e-9)),
        *_line("highest p99", timed, lambda partition: partition.p99_ms),
    ]


def _line(words: str, rounds: Sequence[Round], worse: Worse) -> list[str]:
    chance = PARTITIONS_BY_CHANCE / PARTITION_QUESTIONS
    if worst := always_worst(_by_broker(rounds, worse), chance):
        whose = f"broker {worst[0]}: the partitions that it leads have"
    elif worst := always_worst([{str(i): worse(p) for i, p in enumerate(r.partitions)} for r in rounds], chance):
        whose = f"partition {worst[0]}: it has"
    else:
        return []
    return [f"{whose} the {words} in all {len(rounds)} rounds, by a factor of {number(worst[1])}"]


def _by_broker(rounds: Sequence[Round], worse: Worse) -> Figures:
    led: list[dict[str, list[float]]] = []
    for r in rounds:
        led.append({})
        for partition in r.partitions:
            led[-1].setdefault(str(partition.leader), []).append(worse(partition))
    return [{broker: statistics.fmean(values) for broker, values in leaders.items()} for leaders in led]
