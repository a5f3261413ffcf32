"""Partitions and brokers that differ: named when they always do, and by chance as rarely as is said."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from perfgate.judge.outliers import (
    PARTITION_QUESTIONS,
    PARTITIONS_BY_CHANCE,
    always_worst,
    differing_partitions,
    differing_topics,
)
from perfgate.model import PartitionFigures, Round, TopicFigures
from tests.harness.build import flawed, one_round

Figures = Callable[[int, int], tuple[float, float]]
"""Records/s and p99 (ms) of a partition, by its number and its leader's."""


def rounds(count: int, figures: Figures, *, partitions: int = 6, seed: int = 3) -> list[Round]:
    """Rounds of partitions that three brokers lead, other ones in each; nothing else sets them apart."""
    chance = random.Random(seed)
    made = []
    for index in range(1, count + 1):
        brokers = chance.sample([1, 2, 3], 3)
        told = []
        for number in range(partitions):
            leader = brokers[number % 3]
            rate, p99_ms = figures(number, leader)
            noise = chance.uniform(0.999, 1.001)
            told.append(PartitionFigures(leader=leader, records_per_s=rate * noise, p99_ms=p99_ms * noise))
        made.append(replace(one_round(index, 1_000), partitions=tuple(told)))
    return made


def test_a_broker_that_is_always_slower_is_named_wherever_its_partitions_are() -> None:
    assert differing_partitions(rounds(7, lambda _n, _l: (1_000, 10.0))) == []
    (late,) = differing_partitions(rounds(7, lambda _n, leader: (1_000, 30.0 if leader == 2 else 10.0)))
    assert late.startswith("broker 2: the partitions that it leads have the highest p99 in all 7 rounds, ")
    both = differing_partitions(rounds(7, lambda _n, leader: (500, 30.0) if leader == 3 else (1_000, 10.0)))
    assert [line[:8] for line in both] == ["broker 3"] * 2
    assert "the fewest records/s in all 7 rounds" in both[0]


def test_a_partition_that_the_keys_favour_too_little_is_named() -> None:
    (few,) = differing_partitions(rounds(7, lambda number, _l: (500 if number == 4 else 1_000, 10.0)))
    assert few.startswith("partition 4: it has the fewest records/s in all 7 rounds, by a factor of 2")


def test_too_few_rounds_too_little_and_rounds_that_do_not_count_say_nothing() -> None:
    def slow(_number: int, leader: int) -> tuple[float, float]:
        return (1_000, 30.0 if leader == 2 else 10.0)

    assert differing_partitions(rounds(6, slow)) == [], "three brokers: 4 x 3 ** -5 = 0.016"
    assert differing_partitions(rounds(7, lambda _n, leader: (1_000, 10.5 if leader == 2 else 10.0))) == [], "5 %"
    assert differing_partitions([]) == differing_partitions([one_round(1, 1_000)] * 9) == []
    assert differing_partitions([flawed(r, invalid=("spoilt",)) for r in rounds(7, slow)]) == []
    late = [flawed(r, invalid_metrics={"latency_ms": "sent late"}) for r in rounds(7, slow)]
    assert differing_partitions(late) == [], "its latency is not valid, and its rates are alike"


@pytest.mark.parametrize(("partitions", "count"), [(3, 7), (6, 5), (50, 3)])
def test_partitions_that_are_alike_are_named_no_more_often_than_is_said(partitions: int, count: int) -> None:
    chance, nights = random.Random(1), 20_000
    each = PARTITIONS_BY_CHANCE / PARTITION_QUESTIONS
    named = sum(
        always_worst([{str(n): chance.expovariate(1.0) for n in range(partitions)} for _ in range(count)], each)
        is not None
        for _ in range(nights)
    )
    assert named / nights <= each + 4 * (each / nights) ** 0.5


def test_topics_that_differ_are_named_by_how_often() -> None:
    late = TopicFigures(number=7, records_per_s=10.0, p99_ms=90.0, differs=("p99",))
    both = TopicFigures(number=3, records_per_s=2.0, p99_ms=90.0, differs=("rate", "p99"))
    told = [replace(one_round(n, 1_000), topics=(late, both) if n < 3 else (late,)) for n in (1, 2, 3)]
    told.append(flawed(one_round(4, 1_000), invalid=("wrong",), topics=(late,)))
    assert differing_topics(told) == [
        "topic 007: its p99 differed from the other topics' in 3 of 3 rounds",
        "topic 003: its rate differed from the other topics' in 2 of 3 rounds",
        "topic 003: its p99 differed from the other topics' in 2 of 3 rounds",
    ]
