"""Counters that a Docker engine tells of containers elsewhere: of which moment they are."""

import time
from datetime import UTC, datetime, timedelta, timezone
from unittest.mock import Mock

import pytest

from perfgate.metrics.container import clock_ahead_s, dated, usage_of
from perfgate.metrics.usage import CounterSampler, Usage

WINDOW_S = 3.0


def written(moment: float, zone: timezone = UTC) -> str:
    """Return a moment as an engine writes it, in nanoseconds."""
    text = datetime.fromtimestamp(moment, zone).isoformat(timespec="microseconds")
    return (text[:26] + "789" + text[26:]).replace("+00:00", "Z")


def told(asked: float, read: float, off_s: float) -> Usage:
    """Return what an engine whose clock is off tells that was asked at `asked` and looked at `read`."""
    cpu = {"cpu_usage": {"total_usage": int(2e9 * min(read, WINDOW_S))}}
    stats = {"read": written(read + off_s), "cpu_stats": cpu, "memory_stats": {"usage": 0}}
    return dated(usage_of(stats), asked, read + 0.02)


@pytest.mark.parametrize(
    ("off_s", "late_s", "cores"),
    [(0, 0, 2.0), (0, 1, None), (-1.1, 1, None), (-2, 1, None), (0.5, 0, 2.0), (-0.5, 0, 2.0)],
)
def test_an_engines_clock_that_is_off_hides_no_late_counters(off_s: float, late_s: float, cores: float | None) -> None:
    """Two cores in a window and nothing after it: read a second late by a clock a second behind they were 1.3."""
    sampler = CounterSampler(dict, [1], untold="", elsewhere=True)
    for edge in (0.0, WINDOW_S):
        sampler._edges_at.append(edge)
        sampler._looks.append({1: told(edge, edge + late_s, off_s)})
    found = sampler.metrics(1000.0, [-1]).get("broker_cpu_cores.1")
    assert found == (cores and pytest.approx(cores, rel=0.02))
    assert bool(sampler.unavailable) is (cores is None)


@pytest.mark.parametrize("off_s", [0.0, 5.0, -7200.0])
def test_how_far_an_engines_clock_is_off_is_measured(off_s: float) -> None:
    zone = timezone(timedelta(hours=2))
    engine = Mock(info=lambda: {"SystemTime": written(time.time() + off_s, zone)})
    assert clock_ahead_s(engine) == pytest.approx(off_s, abs=1.0)
