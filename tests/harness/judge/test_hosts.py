"""Load hosts that differ: named when they always do, and by chance as rarely as is said."""

import random
from dataclasses import replace

import pytest

from perfgate.judge.outliers import BY_CHANCE, QUESTIONS, always_worst, differing_hosts
from perfgate.measure.assembly import unmeasured
from perfgate.model import Round
from perfgate.model.histogram import LatencyRecorder, encode
from tests.harness.build import flawed
from tests.harness.build.faults import history, one_fault
from tests.harness.build.hosts import report


def rounds(count: int, *, slow: int = 1_000, late: float = 0.010) -> list[Round]:
    """Three hosts of which the third may be slow or late; the first and the second are worst in turn."""
    return [
        flawed(
            unmeasured(index, ""),
            invalid=(),
            hosts=(
                report("load-1", 1_000 - index % 2, 0.010 + 1e-4 * (index % 2)),
                report("load-2", 1_000 - (index + 1) % 2, 0.010 + 1e-4 * ((index + 1) % 2)),
                report("load-3", slow, late),
            ),
        )
        for index in range(1, count + 1)
    ]


def test_a_host_that_is_always_the_worst_is_named_with_how_much() -> None:
    assert differing_hosts(rounds(7)) == []
    (slow,) = differing_hosts(rounds(7, slow=500))
    assert slow.startswith("load host load-3: its records a process are the fewest in all 7 rounds, 2")
    (late,) = differing_hosts(rounds(7, late=0.030))
    assert late.startswith("load host load-3: its p99 is the highest in all 7 rounds, ")
    assert len(differing_hosts(rounds(7, slow=500, late=0.030))) == 2


def test_processes_that_do_something_else_make_no_host_slow() -> None:
    """The first host has a consumer beside its producer: as many records of one producer each."""
    mixed = [
        replace(
            r,
            hosts=tuple(
                replace(host, processes=2 if n else 3, done_by=1 if n < 2 else 0, done_in_window=done)
                for n, (host, done) in enumerate(zip(r.hosts, (500, 500, 0), strict=True))
            ),
        )
        for r in rounds(7)
    ]
    assert differing_hosts(mixed) == []


def test_too_few_rounds_or_hosts_or_too_little_is_chance() -> None:
    assert differing_hosts(rounds(4, slow=500)) == [], "three hosts: 2 x 3 ** -3 = 0.07"
    assert differing_hosts(rounds(5, slow=500)), "2 x 3 ** -4 = 0.025"
    assert differing_hosts(rounds(7, slow=950)) == [], "5 % fewer"
    assert differing_hosts([]) == differing_hosts([unmeasured(1, "")] * 9) == []
    one = [replace(r, hosts=r.hosts[:1]) for r in rounds(9)]
    assert differing_hosts(one) == []
    failover = one_fault(history()).failover
    faults = [replace(r, failover=failover) for r in rounds(7, slow=500)]
    assert differing_hosts(faults) == [], "their figures are of the load's last moment"


def test_hosts_that_share_the_worst_figure_are_not_told_apart() -> None:
    """The p99 of partitions comes in buckets: the first of those that were alike was named."""
    assert always_worst([{"a": 20.0, "b": 20.0, "c": 10.0}] * 9) is None
    assert always_worst([{"a": 20.0, "b": 10.0, "c": 10.0}] * 9) == ("a", 2.0)


@pytest.mark.parametrize(("hosts", "count"), [(2, 7), (3, 5), (8, 4)])
def test_hosts_that_are_alike_are_named_no_more_often_than_is_said(hosts: int, count: int) -> None:
    chance = random.Random(1)
    nights = 20_000
    named = sum(
        always_worst([{str(n): chance.expovariate(1.0) for n in range(hosts)} for _ in range(count)]) is not None
        for _ in range(nights)
    )
    assert named / nights <= BY_CHANCE / QUESTIONS + 0.005


def test_a_host_without_a_latency_in_a_window_is_left_out() -> None:
    """It had ended the report: what no record came to has a histogram too, an empty one."""
    found = rounds(7, late=0.030)
    silent = replace(found[3].hosts[2], latency_histogram=encode(LatencyRecorder().histogram()))
    found[3] = replace(found[3], hosts=(*found[3].hosts[:2], silent))
    assert differing_hosts(found) == []


def test_rounds_without_a_valid_load_say_nothing_of_hosts() -> None:
    found = rounds(7, slow=500)
    found[0] = flawed(found[0], invalid=("a host was away",), hosts=found[0].hosts[::-1][:2])
    (line,) = differing_hosts(found)
    assert "in all 6 rounds" in line
