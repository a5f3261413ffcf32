"""A capped load's latency is told to be no figure of the brokers where it is how long the load had run."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.rounds import filling_notes, since_the_start
from perfgate.model import Load, Measurement
from tests.harness.build import measurement

CAPPED = Load(kind="capped", rate=1_000.0)


def waited(*p50_ms: float, load: Load = CAPPED, warmup_s: float = 2.0) -> Measurement:
    """A measurement with a round for each of these medians."""
    taken = measurement([1_000.0] * len(p50_ms))
    rounds = tuple(
        replace(r, warmup_s=warmup_s, metrics={**r.metrics, "latency_ms.p50": ms})
        for r, ms in zip(taken.rounds, p50_ms, strict=True)
    )
    return replace(taken, rounds=rounds, scenario=replace(taken.scenario, load=load))


def test_half_of_the_records_waited_since_the_load_began() -> None:
    long = waited(2_953.0, 3_100.0, 2_900.0)
    (line,) = filling_notes({"acks-all": long, "batch-1k": waited(96.0), "replicas-3": long})
    assert line.startswith("acks-all, replicas-3: the latency of these is how long the load had run"), "one note"
    assert not filling_notes({"batch-1k": waited(96.0)})


def test_a_buffer_that_is_turned_over_is_not_told() -> None:
    assert not since_the_start(waited(223.0, 2_953.0, 96.0)), "once of three times"
    assert not since_the_start(waited(2_953.0, load=replace(CAPPED, kind="paced"))), "a record's own time is its slot's"
    assert not since_the_start(replace(waited(), rounds=()))


@given(rate=st.floats(1_000, 200_000), warmup_s=st.floats(1, 30))
def test_a_buffer_is_turned_over_in_its_size_over_the_rate(rate: float, warmup_s: float) -> None:
    """32 MiB of 1 KiB records, full soon after the start: what is acknowledged at t has waited for t, or for a turn.

    The windows are of 2 s.
    """
    turn_s = 32_768 / rate
    middle_s = min(turn_s, warmup_s + 1.0)
    told = since_the_start(waited(middle_s * 1e3, warmup_s=warmup_s))
    assert told == (turn_s > 0.9 * (warmup_s + 1.0))
