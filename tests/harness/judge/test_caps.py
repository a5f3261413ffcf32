"""Ratios of loads that their own caps held: what they do not show is not held, and what they show is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.judge.claims.relation import hidden_by_caps, judge_relation, no_source
from perfgate.judge.confirmation import second_look, to_measure_again
from perfgate.judge.scenario_case import judge_scenario
from perfgate.model import METRICS, Load, Measurement, RangeRelation, Verdict
from tests.harness.build import measurement, profile, relation, threshold
from tests.harness.forked import gate
from tests.harness.run_gate import ROOT

RECORDED = ROOT / "tests" / "harness" / "data" / "run.json"
CAP = 1000.0


def capped(rate: float, name: str, cap: float = CAP) -> Measurement:
    """Return five rounds of about this rate under this cap."""
    found = measurement([rate * noise for noise in (0.999, 1.0, 1.0, 1.001, 1.0)], name)
    return replace(found, scenario=replace(found.scenario, load=Load(kind="capped", rate=cap)))


@pytest.mark.parametrize(
    ("fast", "slow", "at_least", "hidden", "verdict"),
    [
        (CAP, CAP, 0.8, True, None),  # as good as any ratio
        (CAP, CAP, 2.0, True, None),
        (900, CAP, 0.8, True, None),  # the brokers may have taken twice as much of the slow one
        (700, CAP, 0.8, False, Verdict.REGRESSED),  # and then the ratio is even less
        (CAP, 900, 0.8, False, Verdict.PASS),  # the fast one reaches at least so much
        (CAP, 900, 2.0, True, None),  # it may reach more than twice as much
        (CAP, 9, 2.0, False, Verdict.REGRESSED),  # a hundred times as much, and more, is too much
        (900, 900, 0.8, False, Verdict.PASS),
    ],
)
def test_what_caps_hide_is_not_held(
    fast: float, slow: float, at_least: float, hidden: bool, verdict: Verdict | None
) -> None:
    held = {"fast": capped(fast, "fast"), "slow": capped(slow, "slow")}
    found = hidden_by_caps(relation(at_least), held)
    assert bool(found) is hidden
    if hidden:
        assert "1,000 records/s" in found["family-rate"]
    else:
        assert judge_relation(relation(at_least), held).verdict is verdict
    assert not hidden_by_caps(relation(at_least, "broker_cpu_us_per_record"), held), "what it costs is as true"
    paced = {n: replace(m, scenario=replace(m.scenario, load=Load(kind="paced", rate=CAP))) for n, m in held.items()}
    assert not hidden_by_caps(relation(at_least), paced)


@pytest.mark.parametrize(
    ("levels", "hidden"),
    [
        ((500, 800, 850, 790, 800), set()),
        ((500, CAP, CAP, CAP, CAP), {"p6 / p3", "p9 / p3", "p50 / p3"}),
        ((500, CAP, 400, CAP, CAP), {"p9 / p3", "p50 / p3"}),  # p6 takes less than half of p3: that is seen
        ((CAP, CAP, CAP, CAP, 400), {"p3 / p1", "p6 / p3", "p9 / p3"}),  # so is p50, whatever else is hidden
        ((CAP, CAP, CAP, CAP, CAP), {"p3 / p1", "p6 / p3", "p9 / p3", "p50 / p3"}),
    ],
)
def test_a_range_is_held_without_what_caps_hide(levels: tuple[float, ...], hidden: set[str]) -> None:
    names = ("p1", "p3", "p6", "p9", "p50")
    held = {name: capped(level, name) for name, level in zip(names, levels, strict=True)}
    stated = RangeRelation(
        name="partitions-range",
        family="partitions",
        claim="up to the brokers, then flat",
        metric=METRICS["records_per_s"],
        source="test",
        goes="rises",
        leg=names[:2],
        flat=names[2:],
        at_least=1.2,
        step_at_least=0.9,
        at_most=6,
        flat_within=0.5,
    )
    found = hidden_by_caps(stated, held)
    assert found.keys() == hidden
    left = replace(stated, hidden=frozenset(found))
    assert not set(hidden) & {step.name for step in left.steps}
    if left.steps:
        collapsed = 400 in levels
        assert judge_relation(left, held).verdict is (Verdict.REGRESSED if collapsed else Verdict.PASS)


HIGHER = profile(
    threshold("records_per_s", 2.5 * CAP, name="fast"), threshold("broker_cpu_us_per_record", 45.0, name="fast")
)
"""Recorded before a target file's limits lowered the cap; each record cost the brokers less."""


@pytest.mark.parametrize(
    ("rate", "verdict"), [(CAP, Verdict.INCONCLUSIVE), (0.99 * CAP, Verdict.INCONCLUSIVE), (900, Verdict.REGRESSED)]
)
def test_a_load_at_a_cap_below_its_stored_limit_is_not_red(rate: float, verdict: Verdict) -> None:
    """It was REGRESSED, and the confirmation run, which has the same cap, confirmed it."""
    held = capped(rate, "fast")
    outcome = judge_scenario(held, HIGHER)
    assert outcome.verdict is verdict
    assert to_measure_again({"fast": held}, HIGHER, ()) == ({"fast"} if verdict is Verdict.REGRESSED else set())
    reason = "records_per_s: reached its cap of 1,000 records/s; the stored limit of 2,250 is of a higher one"
    assert any(one.startswith(reason) for one in outcome.reasons) is (verdict is Verdict.INCONCLUSIVE)


def test_a_confirmation_run_at_such_a_cap_confirms_nothing() -> None:
    first, second = (judge_scenario(capped(rate, "fast"), HIGHER) for rate in (900, CAP))
    assert second_look(first, second).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("metrics", "untold", "words"),
    [
        ({"broker_network_in_bytes_per_record": 1019.0}, {}, ""),
        ({}, {"network": "no counters", "disk": "none"}, "no counters"),
        ({"network_in_mib_per_s": 3.0}, {}, "nobody tells broker_network_in_bytes_per_record here"),
        ({"broker_network_in_mib_per_s": 0.0}, {}, ""),  # of no record: that is not valid, and stays so
    ],
)
def test_what_a_target_never_tells_is_not_held(metrics: dict[str, float], untold: dict[str, str], words: str) -> None:
    """It was INVALID wherever a relation asks for what is told of the embedded brokers alone."""
    one = measurement([900.0, 910.0], "fast")
    rounds = tuple(replace(r, metrics={"records_per_s": 900.0, **metrics}, untold=untold) for r in one.rounds)
    held = {name: replace(one, rounds=rounds) for name in ("fast", "slow")}
    assert no_source(relation(1.0, "broker_network_in_bytes_per_record"), held) == words
    assert no_source(relation(1.0), held) == "", "a rate is the clients' to tell"


def test_a_run_says_which_relations_its_caps_hide(tmp_path: Path) -> None:
    """Limits of a target file lower the caps of loads; each ratio of two was 1.00, and green."""
    document = json.loads(RECORDED.read_text())
    for entry in document["scenarios"]:
        if entry["name"] in ("batch-1k", "replicas-3"):
            entry["load"]["rate"] = CAP
            for one in entry["rounds"]:
                one["metrics"]["records_per_s"] = CAP
    (tmp_path / "run.json").write_text(json.dumps(document))
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}", "-k", "batch-1k or replicas", "-rs")
    words = " ".join(done.output.split())
    assert "not run: held by a cap of its own, not by the brokers: batch-1k 1,000 and replicas-3 1,000" in words
