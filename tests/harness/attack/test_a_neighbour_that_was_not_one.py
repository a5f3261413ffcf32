"""A load beside a scenario's that lost records, or made none: the scenario was measured beside something else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock, Mock, patch

import pytest

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.units import sound_units
from perfgate.measure.beside import Beside, client_ids
from perfgate.measure.flaw import share
from perfgate.model import METRICS, Effect, Load, Measurement, Profile, Verdict, metric_info
from perfgate.model.compared import SATURATED, SENT_LATE, STOOD_STILL
from perfgate.model.flaw import Flaw, Part, explained
from perfgate.model.load import LoadResult
from tests.harness.build import load_result, measurement, profile, relation, scenario, sent, threshold
from tests.harness.build.benches import Cluster, bench_of
from tests.harness.build.comparisons import comparison
from tests.harness.model.test_beside import beside, noisy

SOUND: Mapping[str, Any] = {
    "attempted": 800,
    "acked": 800,
    "acked_by_partition": [100] * 8,
    "attempted_in_window": 800,
    "acked_in_window": 800,
    "pushback_in_window_s": 1.0,
    "pushback_s": 1.0,
}
RATIO = {"fast": 0.5, "slow": 1.0}
OWN = Load(kind="capped", rate=5_000.0)
SAMPLER = Mock(metrics=Mock(return_value={}), gives=(), unavailable="", why_missing="")


def judged(
    result: LoadResult, after: list[int], *, limited: bool = False, limits: Profile | None = None
) -> tuple[Measurement, str, Verdict]:
    """A round of a sound load beside which another one came to `result`."""
    two = replace(beside(noisy(quota_mib_per_s=float(limited))), load=OWN)
    cluster = Cluster()
    cluster.dedicated = True
    bench = bench_of(cluster, MagicMock(), SAMPLER)
    own = sent(attempted=1000, acked=1000, attempted_in_window=1000, acked_in_window=1000, pushback_in_window_s=1.0)
    whole = replace(load_result(sent=own), beside=(result,))
    load = Beside(name="noisy", scenario=two.parts[0], topic="t", before=[0] * 8, limited=limited)
    found = bench.finished(two, 1, whole, [0], [1000], [-1], SAMPLER, beside=[(load, after)]).round
    series = Measurement(scenario=two, rounds=(found, found), rtt_ms={})
    outcome = judge_scenario(series, limits)
    return series, " ".join(outcome.reasons), outcome.verdict


def test_a_sound_one_spoils_nothing_and_is_recorded() -> None:
    series, reasons, _ = judged(load_result(sent=sent(**SOUND)), [100] * 8)
    (figures,) = series.rounds[0].beside
    assert (figures.name, figures.accounting.acked, figures.accounting.offset_delta) == ("noisy", 800, 800)
    assert series.rounds[0].metrics["part.noisy.records_per_s"] == pytest.approx(800 / series.rounds[0].window_s)
    assert "noisy" not in reasons
    assert not series.rounds[0].invalid


@pytest.mark.parametrize(
    ("changes", "after", "verdict", "words"),
    [
        ({}, [100] * 7 + [99], Verdict.BROKEN, "the load noisy beside it: records unaccounted"),
        ({"acked": 700, "unresolved": 100}, [100] * 7 + [0], Verdict.BROKEN, "had no outcome"),
        ({"pushback_s": 0.0, "pushback_in_window_s": 0.0}, [100] * 8, Verdict.INVALID, "its buffer did not push back"),
        ({"acked_by_partition": [400, 400] + [0] * 6}, [400, 400] + [0] * 6, Verdict.INVALID, "left unwritten"),
        ({"throttled_ms": 900}, [100] * 8, Verdict.INVALID, "throttled"),
    ],
)
def test_what_was_wrong_with_it_is_wrong_with_the_round(
    changes: dict[str, Any], after: list[int], verdict: Verdict, words: str
) -> None:
    _, reasons, found = judged(load_result(sent=sent(**{**SOUND, **changes})), after)
    assert found is verdict
    assert words in reasons
    assert "the load noisy beside it" in reasons


def spoilt_beside(flaw: Flaw) -> Any:
    """Let the load beside the scenario's have this flaw, and the scenario's own load none."""
    return patch("perfgate.measure.validity.round_flaws", lambda load, *_, **__: () if load == OWN else (flaw,))


@pytest.mark.parametrize("metrics", [("latency_ms",), ()])
def test_its_flaws_explain_its_own_figures_and_none_of_the_scenarios(metrics: tuple[str, ...]) -> None:
    """A neighbour that was sent late made a p99 of three times its limit undecided, and its own figures red."""
    own = Flaw("late", kind=SENT_LATE, metrics=metrics, explains=(Part(offset=50.0, metrics=("latency_ms.p99",)),))
    with spoilt_beside(own):
        series, _, _ = judged(load_result(sent=sent(**SOUND)), [100] * 8)
    (flaw,) = (flaw for flaw in series.rounds[0].flaws if flaw.kind == SENT_LATE)
    (doubt,) = flaw.doubts
    assert doubt.touches("part.noisy.latency_ms.p99")
    assert not doubt.touches("latency_ms.p99")
    assert not doubt.touches("part.other.latency_ms.p99")
    assert flaw.metrics == (("part.noisy",) if metrics else ())
    spoilt = [bool(series.rounds[0].spoilt(f"{load}latency_ms.p99")) for load in ("part.noisy.", "part.other.", "")]
    assert spoilt == [bool(metrics), False, False]
    assert bool(series.rounds[0].spoilt("part.noisy")) is bool(metrics), "as the reports ask"


def test_a_neighbour_that_stood_still_explains_what_a_record_cost_the_brokers() -> None:
    """Their CPU is divided by the records of all loads: that of fewer cheap ones was red."""
    still = Flaw("stood still", kind=STOOD_STILL, explains=share(1.6))
    with spoilt_beside(still):
        series, _, _ = judged(load_result(sent=sent(**SOUND)), [100] * 8)
    doubts = [doubt for flaw in series.rounds[0].flaws for doubt in flaw.doubts if flaw.kind == STOOD_STILL]
    assert explained(doubts, "broker_cpu_us_per_record") == (1.6, 0.0)
    assert explained(doubts, "part.noisy.records_per_s") == (1.6, 0.0)
    assert explained(doubts, "records_per_s") == (1.0, 0.0)


UNMADE = Flaw("it was not made", kind=SATURATED, whose="load", again=True)


@pytest.mark.parametrize(
    ("metric", "verdict"),
    [
        ("records_per_s", Verdict.REGRESSED),
        ("part.noisy.records_per_s", Verdict.INVALID),
        ("broker_cpu_us_per_record", Verdict.INVALID),
    ],
)
def test_one_that_was_not_made_excuses_no_loss_of_the_scenarios_own(metric: str, verdict: Verdict) -> None:
    """Brokers that had less to do were slow all the same: what was red became INVALID."""
    info = metric_info(metric)
    assert info is not None
    own = replace(threshold("records_per_s", 100_000.0 if info.better == "higher" else 1.0), metric=info)
    with spoilt_beside(UNMADE), patch.object(SAMPLER, "metrics", return_value={"broker_cpu_us_per_record": 50.0}):
        series, reasons, found = judged(load_result(sent=sent(**SOUND)), [100] * 8, limits=profile(own))
    assert series.rounds[0].invalid
    assert found is verdict
    assert "the load noisy beside it: it was not made" in reasons


def without_neighbour(measured: Measurement) -> Measurement:
    """The measurement, with a neighbour that was not made in any round."""
    with spoilt_beside(UNMADE):
        series, _, _ = judged(load_result(sent=sent(**SOUND)), [100] * 8)
    return replace(measured, rounds=tuple(replace(r, flaws=series.rounds[0].flaws) for r in measured.rounds))


@pytest.mark.parametrize(("flattered", "loss"), [("baseline", False), ("candidate", True)])
def test_a_side_that_had_no_neighbour_is_no_reference(flattered: str, loss: bool) -> None:
    """It is better than it would be: the other seems to be slower, and itself no slower than it is."""
    slower = comparison(0.5)
    side: Any = {flattered: without_neighbour(getattr(slower, flattered))}
    spoilt = replace(slower, **side)
    assert bool(sound_units(spoilt, METRICS["records_per_s"])) is loss
    assert judge_comparison(spoilt).effect is (Effect.SLOWER if loss else Effect.INVALID)


@pytest.mark.parametrize(
    ("metric", "at_least", "at_most", "of", "over"),
    [
        # The ratio of fast over slow is 0.5, as measured: where it is too low, or too high, for the bound.
        ("records_per_s", 0.8, 100.0, True, False),
        ("records_per_s", 0.1, 0.3, False, True),
        ("latency_ms.p99", 0.8, 100.0, False, True),
        ("latency_ms.p99", 0.1, 0.3, True, False),
    ],
)
def test_a_relation_is_broken_by_a_flattered_side_only_where_it_would_be_anyway(
    metric: str, at_least: float, at_most: float, of: bool, over: bool
) -> None:
    """`of`, `over`: whether the relation is broken although the side above, or below, had no neighbour."""
    sides = {name: measurement([factor * rate for rate in (99, 100, 101, 100)], name) for name, factor in RATIO.items()}
    for name, factor in RATIO.items():
        rounds = tuple(replace(r, metrics={**r.metrics, "latency_ms.p99": factor * 4.0}) for r in sides[name].rounds)
        sides[name] = replace(sides[name], rounds=rounds)
    held = relation(at_least, metric, at_most)
    assert judge_relation(held, sides).verdict is Verdict.REGRESSED
    for name, broken in (("fast", of), ("slow", over)):
        verdict = judge_relation(held, {**sides, name: without_neighbour(sides[name])}).verdict
        assert verdict is (Verdict.REGRESSED if broken else Verdict.INVALID)


def test_a_quota_that_was_asked_for_is_no_flaw() -> None:
    result = load_result(sent=sent(**{**SOUND, "throttled_ms": 900}))
    series, reasons, _ = judged(result, [100] * 8, limited=True)
    assert not series.rounds[0].invalid
    assert "throttled" not in reasons


def test_a_quota_is_that_of_the_runs_own_client_id() -> None:
    two = beside(noisy(quota_mib_per_s=2), noisy(name="free"))
    assert client_ids(two, "kpg-r") == {f"kpg-r-{two.name}-noisy": 2 << 20}
    assert client_ids(scenario(), "kpg-r") == {}
