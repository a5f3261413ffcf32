"""A comparison of two clusters: what the client's paths to them may have made is not concluded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import ReferenceStopRule, judge_against_reference, reference_message
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.wording import comparison_message
from perfgate.measure.load_watch import LoadWatch
from perfgate.model import Comparison, Consumers, Deciding, Effect, Load, Verdict
from perfgate.model.errors import TargetError
from perfgate.model.load import Progress
from perfgate.model.target import Meter
from tests.harness.build import scenario
from tests.harness.build.comparisons import comparison
from tests.harness.examples import examples

P99 = Deciding(metrics=("latency_ms.p99",))


def on_two(factor: float, before: float, after: float, **changes: Any) -> Comparison:
    found = comparison(factor, two_clusters=True, **changes)
    one, other = ({} if not ms else {"same-zone": ms} for ms in (before, after))
    return replace(
        found, baseline=replace(found.baseline, rtt_ms=one), candidate=replace(found.candidate, rtt_ms=other)
    )


@pytest.mark.parametrize(
    ("factor", "before", "after", "effect"),
    [
        (1.0, 1.0, 1.04, Effect.SAME),
        (1.0, 1.0, 1.1, Effect.INCONCLUSIVE),
        (1.0, 1.1, 1.0, Effect.INCONCLUSIVE),
        (0.8, 1.0, 1.1, Effect.SLOWER),
        (0.8, 1.0, 1.4, Effect.INCONCLUSIVE),
        (1.3, 1.4, 1.0, Effect.INCONCLUSIVE),
        (1.3, 1.0, 1.1, Effect.FASTER),
        (1.3, 1.0, 1.4, Effect.FASTER),
        (0.8, 1.4, 1.0, Effect.SLOWER),
        (0.8, 1.0, 0.0, Effect.INCONCLUSIVE),
        (1.0, 1.01, 1.0, Effect.SAME),
        (0.96, 1.04, 1.0, Effect.SLOWER),
        (1.02, 1.04, 1.0, Effect.SAME),
    ],
)
def test_a_path_that_differs_by_more_than_the_effect_concludes_nothing(
    factor: float, before: float, after: float, effect: Effect
) -> None:
    outcome = judge_comparison(on_two(factor, before, after))
    assert outcome.effect is effect
    message = comparison_message(outcome, "on new")
    assert ("the client's paths to the two clusters differ" in message) is (effect is Effect.INCONCLUSIVE)
    assert "--budget" not in message, "more time would not help"
    assert judge_comparison(on_two(factor, before, after), final=False).effect is not Effect.INCONCLUSIVE, (
        "it still ends early"
    )


WIDE = (1.0, 1.02, 0.98, 1.015, 0.985, 1.0, 1.02, 0.98, 1.01, 0.99)


def test_a_shorter_path_hides_no_slowdown() -> None:
    """The candidate's brokers may be 6 % slower where its path is 4 % shorter: it was SAME, within 5 %."""
    near = on_two(1.0, 1.04, 1.0, noise=WIDE)
    outcome = judge_comparison(near)
    assert outcome.effect is Effect.INCONCLUSIVE
    assert "which may hide a loss of 4.0 % of records_per_s" in outcome.reasons[0]
    assert "next  " not in comparison_message(outcome, "on new"), "the reason says what to do"
    assert judge_comparison(near, final=False).effect is Effect.INCONCLUSIVE, "more units may outweigh it"
    assert judge_comparison(on_two(1.0, 1.0, 1.04, noise=WIDE)).effect is Effect.SAME, "a longer one hides none"
    narrow = on_two(1.0, 1.04, 1.0, noise=[1 + (x - 1) / 10 for x in WIDE])
    assert judge_comparison(narrow).effect is Effect.SAME


def test_a_shorter_path_makes_nothing_faster() -> None:
    """Of +22 % (interval from 13 % on) a path that is 17 % shorter may be the reason, and hide a loss of 6 %."""
    noise = (1.075, 0.94, 1.06, 0.955, 1.045, 0.9475, 1.0675, 0.9625, 1.0, 1.0)
    far, near = (judge_comparison(on_two(1.22, before, 1.0, noise=noise)) for before in (1.0, 1.2))
    assert (far.effect, near.effect) == (Effect.FASTER, Effect.INCONCLUSIVE)
    assert "may hide a loss of 20.0 %" in near.reasons[0]


def test_a_shorter_path_hides_no_longer_latency() -> None:
    """p99 is about 4 ms on both; 0.16 ms of path less may hide as much."""

    def found(after_ms: float) -> Comparison:
        compared = on_two(1.0, 1.0, after_ms, decides=P99)
        rounds = tuple(
            replace(r, metrics={**r.metrics, "latency_ms.p99": 4.0 * x})
            for r, x in zip(compared.candidate.rounds, WIDE, strict=True)
        )
        return replace(compared, candidate=replace(compared.candidate, rounds=rounds))

    assert judge_comparison(found(0.99)).effect is Effect.SAME
    outcome = judge_comparison(found(0.84))
    assert outcome.effect is Effect.INCONCLUSIVE
    assert "which may hide a loss of 4.2 % of latency_ms.p99" in outcome.reasons[0]


@pytest.mark.parametrize("metric", ["records_per_s", "latency_ms.p99"])
def test_a_longer_path_makes_nothing_slower(metric: str) -> None:
    """Of -9.5 % a path that is 9 % longer may be all but a half; of a p99 of 4 ms, 0.36 ms. It was SLOWER."""
    far = on_two(0.905, 1.0, 1.09, noise=WIDE)
    if metric != "records_per_s":
        rounds = tuple(
            replace(r, metrics={**r.metrics, metric: 4.0 * 1.095 * x})
            for r, x in zip(far.candidate.rounds, WIDE, strict=True)
        )
        candidate = replace(far.candidate, rounds=rounds, rtt_ms={"same-zone": 1.36})
        far = replace(far, candidate=candidate, decides=P99)
    outcome = judge_comparison(far)
    assert outcome.effect is Effect.INCONCLUSIVE
    assert f"which may be 9.0 % of {metric}, and the rest tells of no loss" in outcome.reasons[0]
    assert judge_comparison(far, final=False).effect is Effect.SLOWER, "it still ends early"
    assert judge_comparison(replace(far, two_clusters=False)).effect is Effect.SLOWER


@pytest.mark.parametrize(
    ("factor", "here_ms", "verdict"),
    [(0.94, 1.0, Verdict.REGRESSED), (0.94, 1.04, Verdict.INCONCLUSIVE), (0.85, 1.04, Verdict.REGRESSED)],
)
def test_a_longer_path_breaks_no_limit(factor: float, here_ms: float, verdict: Verdict, tmp_path: Path) -> None:
    (tmp_path / "ratios.toml").write_text("[default]\nrecords_per_s = { at_least = 0.95 }\n")
    narrow = [1 + (x - 1) / 10 for x in WIDE]
    found = judge_against_reference(on_two(factor, 1.0, here_ms, noise=narrow), load_ratios(tmp_path))
    assert found.verdict is verdict


@pytest.mark.parametrize(("reference_ms", "verdict"), [(1.0, Verdict.PASS), (1.04, Verdict.INCONCLUSIVE)])
def test_a_shorter_path_keeps_no_limit(reference_ms: float, verdict: Verdict, tmp_path: Path) -> None:
    (tmp_path / "ratios.toml").write_text("[default]\nrecords_per_s = { at_least = 0.95 }\n")
    found = judge_against_reference(on_two(0.98, reference_ms, 1.0), load_ratios(tmp_path))
    assert found.verdict is verdict
    assert all("may hide a loss of 4.0 %" in reason for reason in found.reasons)


@pytest.mark.parametrize(("after", "effect"), [(1.05, Effect.SAME), (3.0, Effect.INCONCLUSIVE)])
def test_a_path_adds_its_difference_to_a_latency(after: float, effect: Effect) -> None:
    """p99 is 4 ms on both: 0.05 ms more path is little of it, though a twentieth of the path."""
    assert judge_comparison(on_two(1.0, 1.0, after, decides=P99)).effect is effect


@pytest.mark.parametrize(
    ("factor", "reference_ms", "here_ms", "verdict"),
    [
        (1.0, 1.0, 1.04, Verdict.PASS),
        (1.0, 1.0, 1.1, Verdict.INCONCLUSIVE),
        (0.8, 1.0, 1.1, Verdict.REGRESSED),
        (0.8, 1.0, 1.4, Verdict.INCONCLUSIVE),
        (0.8, 1.4, 1.0, Verdict.REGRESSED),
        (1.0, 0.0, 1.0, Verdict.INCONCLUSIVE),
    ],
)
def test_so_it_is_with_a_reference_that_is_another_cluster(
    factor: float, reference_ms: float, here_ms: float, verdict: Verdict, tmp_path: Path
) -> None:
    (tmp_path / "ratios.toml").write_text("[default]\nrecords_per_s = { at_least = 0.95 }\n")
    ratios = load_ratios(tmp_path)
    # As it is measured the reference is the change; the gate turns it.
    measured = on_two(factor, reference_ms, here_ms).turned()
    found = judge_against_reference(measured.turned(), ratios)
    assert found.verdict is verdict
    message = reference_message(found, measured.turned(), "old", ratios)
    by_path = "the client's paths to the two clusters differ" in message
    assert by_path is (verdict is Verdict.INCONCLUSIVE)
    if by_path and reference_ms:
        assert f"{reference_ms:.2f} ms to the reference and {here_ms:.2f} ms to the candidate's cluster" in message
    assert "--budget" not in message, "more time would not help"
    assert ReferenceStopRule(ratios).decided(measured), "it still ends early"


@pytest.mark.parametrize(("here_ms", "red"), [(1.0, True), (30.0, False)])
@pytest.mark.parametrize("units", [1, 10])
def test_a_rate_that_a_far_cluster_does_not_take_may_be_the_paths_doing(
    here_ms: float, red: bool, units: int, tmp_path: Path
) -> None:
    found = on_two(1.0, 1.0, here_ms, noise=(1.0, 1.01, 0.99, 1.0, 1.0, 1.01, 0.99, 1.0, 1.0, 1.0)[:units])
    sides = {}
    for side in ("baseline", "candidate"):
        m = getattr(found, side)
        short = "not sustained: took 900 of 1,000" if side == "candidate" else ""
        rounds = tuple(replace(r, not_sustained=short) for r in m.rounds)
        sides[side] = replace(m, rounds=rounds, scenario=replace(m.scenario, load=Load(kind="paced", rate=1000)))
    found = replace(found, **sides)
    red = red and units > 1  # one round is no majority to go by
    assert judge_comparison(found).effect is (Effect.SLOWER if red else Effect.INCONCLUSIVE)
    (tmp_path / "ratios.toml").write_text("[default]\nrecords_per_s = { at_least = 0.95 }\n")
    outcome = judge_against_reference(found, load_ratios(tmp_path))
    assert outcome.verdict is (Verdict.REGRESSED if red else Verdict.INCONCLUSIVE)
    assert ("paths to the two clusters differ" in outcome.reasons[0]) is (units > 1 and not red)


def test_on_the_same_brokers_the_link_is_what_is_compared() -> None:
    found = on_two(0.8, 1.0, 2.0)
    assert judge_comparison(replace(found, two_clusters=False)).effect is Effect.SLOWER


class Cluster:
    """Stands in for one of two clusters, with limits of its own."""

    most_failed = 0.1

    def __init__(self, most_bytes: float) -> None:
        self.meter = Meter(most_bytes)


def test_each_cluster_is_metered_by_what_is_sent_to_it_and_stopped_by_its_own_limits() -> None:
    row = scenario()
    done = {"A-producer-1": 100, "B-producer-1": 50}
    last = Progress(at=0, attempted=150, done=150, failed=0, by_process=done)
    small = Cluster(80 * row.record_bytes)
    one, other = (LoadWatch(cluster, None, None) for cluster in (Cluster(1e9), small))  # type: ignore[arg-type]
    one.hold_limits(row, last, {"A": row})
    other.hold_limits(row, last, {"B": row})
    small.meter.begin()
    assert small.meter.written == 50 * row.logged_bytes
    with pytest.raises(TargetError, match=r"\[limits\] bytes allows"):
        other.hold_limits(row, last, {"B": row})
    failing = replace(last, attempted=156, failed=6)
    one.hold_limits(row, failing, {"A": row})
    with pytest.raises(TargetError, match="6 of 56 sends failed"):
        LoadWatch(Cluster(1e9), None, None).hold_limits(row, failing, {"B": row})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "after", "effect"),
    [
        (0.2, 0.4, Effect.SLOWER),
        (0.4, 0.2, Effect.SLOWER),
        (1.0, 14.0, Effect.SLOWER),
        (100.0, 10.0, Effect.INCONCLUSIVE),
        (10.0, 100.0, Effect.SLOWER),
    ],
)
def test_a_near_path_makes_no_cpu_and_a_longer_one_makes_it_less(before: float, after: float, effect: Effect) -> None:
    """40 % more CPU was excused by 0.4 instead of 0.2 ms, as if brokers' CPU were a client's rate; then by 100 ms
    instead of 10, which make larger batches.

    Of 333 records/s to each broker five requests in flight carry one each up to a round trip of 15 ms.
    """
    dearer = on_two(1.0, before, after, cpu_us=70.0, decides=Deciding(metrics=("broker_cpu_us_per_record",)))
    assert judge_comparison(dearer).effect is effect


@pytest.mark.parametrize(("before", "after", "effect"), [(30.0, 31.2, Effect.INCONCLUSIVE), (31.2, 30.0, Effect.SAME)])
def test_a_longer_path_may_hide_that_a_record_costs_more(before: float, after: float, effect: Effect) -> None:
    """Its larger batches may hide 4 %: it was SAME, within 5 %."""
    found = on_two(1.0, before, after, decides=Deciding(metrics=("broker_cpu_us_per_record",)))
    rounds = tuple(
        replace(r, metrics={**r.metrics, "broker_cpu_us_per_record": 50.0 * x})
        for r, x in zip(found.candidate.rounds, WIDE, strict=True)
    )
    outcome = judge_comparison(replace(found, candidate=replace(found.candidate, rounds=rounds)))
    assert outcome.effect is effect
    assert all("may hide a loss of 4.0 % of broker_cpu_us_per_record" in reason for reason in outcome.reasons)


@pytest.mark.parametrize(("after", "effect"), [(1.0, Effect.SLOWER), (3.0, Effect.SAME)])
def test_a_longer_path_is_no_harm_beside_what_decides(after: float, effect: Effect) -> None:
    """p99 was 4 ms and is 7: with a round trip that is 2 ms longer nothing says that the brokers are to blame."""
    decides = Deciding(metrics=("broker_cpu_us_per_record",))
    found = on_two(1.0, 1.0, after, decides=decides)
    sides = {}
    for side, p99_ms in (("baseline", 4.0), ("candidate", 7.0)):
        measured = getattr(found, side)
        rounds = tuple(
            replace(r, metrics={**r.metrics, "latency_ms.p99": p99_ms * (1 + 0.01 * (-1) ** r.index)})
            for r in measured.rounds
        )
        sides[side] = replace(measured, rounds=rounds)
    assert judge_comparison(replace(found, **sides)).effect is effect


@pytest.mark.parametrize(
    ("before", "after", "received", "effect"),
    [(1.0, 1.0, 0.8, Effect.SLOWER), (1.0, 1.3, 0.8, Effect.SAME), (1.0, 1.3, 0.7, Effect.SLOWER)],
)
def test_a_longer_path_may_be_why_consumers_are_given_less(
    before: float, after: float, received: float, effect: Effect
) -> None:
    """A fifth less was SLOWER beside the CPU that decides, where a path that is 30 % longer may be all of it."""
    found = on_two(1.0, before, after, cap=1000.0, noise=(1.0,) * 10)
    for side, times in (("baseline", 1.0), ("candidate", received)):
        m = getattr(found, side)
        rounds = tuple(
            replace(r, metrics={**r.metrics, "received_records_per_s": 1000.0 * times * x})
            for r, x in zip(m.rounds, [1 + (x - 1) / 10 for x in WIDE], strict=True)
        )
        row = replace(m.scenario, consumers=Consumers(membership="group"))
        found = replace(found, **{side: replace(m, scenario=row, rounds=rounds)})
    assert judge_comparison(found).effect is effect


@pytest.mark.parametrize(("before", "after", "effect"), [(9.0, 1.0, Effect.INCONCLUSIVE), (3.0, 1.0, Effect.SAME)])
def test_a_shorter_path_hides_no_longer_wait_beside_what_decides(before: float, after: float, effect: Effect) -> None:
    """p99 is 10 ms on both: 8 ms of path less make that 1 ms of the brokers became 9."""
    found = on_two(1.0, before, after, cap=1000.0, noise=(1.0,) * 10)
    for side in ("baseline", "candidate"):
        m = getattr(found, side)
        rounds = tuple(replace(r, metrics={**r.metrics, "latency_ms.p99": 10.0}) for r in m.rounds)
        found = replace(found, **{side: replace(m, rounds=rounds)})
    outcome = judge_comparison(found)
    assert outcome.effect is effect
    if effect is not Effect.SAME:
        assert "of latency_ms.p99; measure from where both are equally far" in outcome.reasons[0]
    assert judge_comparison(found, final=False).effect is Effect.SAME, "more units would not help: it ends"


def with_p99(own: tuple[float, float], paths: tuple[float, float], decides: Deciding) -> Comparison:
    """Return a comparison whose p99 is what the brokers of each side take (`own`) and its round trip, in ms."""
    found = on_two(1.0, *paths, decides=decides)
    for side, own_ms, path_ms in zip(("baseline", "candidate"), own, paths, strict=True):
        m = getattr(found, side)
        p99 = [(own_ms + path_ms) * (1 + 1e-6 * (-1) ** r.index) for r in m.rounds]
        rounds = tuple(
            replace(r, metrics={**r.metrics, "latency_ms.p99": x}) for r, x in zip(m.rounds, p99, strict=True)
        )
        found = replace(found, **{side: replace(m, rounds=rounds)})
    return found


def test_brokers_that_are_slower_by_more_than_their_nearer_path_gains_are_not_faster() -> None:
    """p99 of 2.5 ms became 1.4 where 1.8 ms of path went away: 0.5 ms of the brokers became 1.2. It was FASTER."""
    outcome = judge_comparison(with_p99((0.5, 1.2), (2.0, 0.2), P99))
    assert outcome.effect is Effect.INCONCLUSIVE
    assert judge_comparison(with_p99((2.5, 1.2), (2.0, 0.2), P99)).effect is Effect.FASTER


def test_a_gain_that_a_shorter_path_makes_but_for_the_margin_is_not_faster() -> None:
    """Brokers took 2.0 and 1.98 ms, the paths 2.0 and 0.2: 45 % FASTER, of which all but 1 % was the path."""
    outcome = judge_comparison(with_p99((2.0, 1.98), (2.0, 0.2), P99))
    assert outcome.effect is Effect.INCONCLUSIVE
    assert "measure from where both are equally far" in outcome.reasons[0]


BETTER = (Effect.SLOWER, Effect.SAME, Effect.FASTER)


@pytest.mark.parametrize("decides", [P99, Deciding(metrics=("broker_cpu_us_per_record",))], ids=["p99", "beside"])
@given(
    own_ms=st.floats(0.2, 20),
    factor=st.floats(0.3, 3),
    path_ms=st.floats(0.1, 2),
    more_ms=st.floats(0, 10),
    farther=st.sampled_from(["baseline", "candidate"]),
)
@example(own_ms=0.5, factor=2.4, path_ms=0.2, more_ms=1.8, farther="baseline")
@example(own_ms=2.0, factor=0.99, path_ms=0.2, more_ms=1.8, farther="baseline")
@example(own_ms=1.0, factor=1.7, path_ms=0.2, more_ms=5.0, farther="candidate")
@settings(max_examples=examples(100), deadline=None)
def test_a_longer_path_to_either_side_makes_no_verdict_better(
    decides: Deciding, own_ms: float, factor: float, path_ms: float, more_ms: float, farther: str
) -> None:
    own, far_ms = (own_ms, own_ms * factor), path_ms + more_ms
    paths = (far_ms, path_ms) if farther == "baseline" else (path_ms, far_ms)
    equal, found = (judge_comparison(with_p99(own, both, decides)).effect for both in ((path_ms, path_ms), paths))
    assert found not in (Effect.SAME, Effect.FASTER) or equal not in BETTER[: BETTER.index(found)]
