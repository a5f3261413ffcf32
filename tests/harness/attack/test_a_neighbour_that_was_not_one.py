"""A load beside a scenario's that lost records, or made none: the scenario was measured beside something else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock, Mock, patch

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.beside import Beside, client_ids
from perfgate.measure.flaw import share
from perfgate.model import Load, Measurement, Verdict
from perfgate.model.compared import SENT_LATE, STOOD_STILL
from perfgate.model.flaw import Flaw, Part, explained
from perfgate.model.load import LoadResult
from tests.harness.build import load_result, scenario, sent
from tests.harness.build.benches import Cluster, bench_of
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
OWN = Load(kind="capped", rate=5_000.0)
SAMPLER = Mock(metrics=Mock(return_value={}), gives=(), unavailable="", why_missing="")


def judged(result: LoadResult, after: list[int], *, limited: bool = False) -> tuple[Measurement, str, Verdict]:
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
    outcome = judge_scenario(series, None)
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


def test_a_quota_that_was_asked_for_is_no_flaw() -> None:
    result = load_result(sent=sent(**{**SOUND, "throttled_ms": 900}))
    series, reasons, _ = judged(result, [100] * 8, limited=True)
    assert not series.rounds[0].invalid
    assert "throttled" not in reasons


def test_a_quota_is_that_of_the_runs_own_client_id() -> None:
    two = beside(noisy(quota_mib_per_s=2), noisy(name="free"))
    assert client_ids(two, "kpg-r") == {f"kpg-r-{two.name}-noisy": 2 << 20}
    assert client_ids(scenario(), "kpg-r") == {}
