"""docs/catalogue.md says what is declared; every relation of it can be red."""

import json
import re
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from perfgate.catalogue.kafka import FAMILIES
from perfgate.judge.bounds_files import load_relations
from perfgate.judge.claims.relation import judge_relation
from perfgate.model import PairRelation, RangeRelation, Verdict
from tests.harness.build import measurement, one_round, scenario
from tests.harness.run_gate import ROOT
from tests.scenarios.document import MEASURED, PAGE, collected, current, held_again, night_of, page

HELD = load_relations(ROOT / "perfgate" / "catalogue" / "relations.toml")
HERE = [*(r.here(shares_cores=True) for r in HELD), *(r for r in HELD if r.shared_cores)]
"""As they are held where cores are shared, and where brokers have hosts of their own if that is stated otherwise."""
STEPS = [step for r in HERE if isinstance(r, RangeRelation) for step in r.steps]
RELATIONS = [*(r for r in HERE if isinstance(r, PairRelation)), *STEPS]


def test_the_page_is_what_the_declarations_say() -> None:
    assert PAGE.read_text() == current(), "make catalogue"


def test_figures_are_the_medians_of_the_runs_and_say_in_how_many_a_relation_held() -> None:
    def run(rate: float, ratio: float | None, held: str, verdict: str = "GREEN") -> dict[str, Any]:
        metrics = {"records_per_s": {"value": rate}, "latency_ms.p99": {"value": 78.8}}
        late: dict[str, Any] = {"flaws": [{"metrics": ["latency_ms"]}]}
        entry = {"name": "replicas-3", "verdict": verdict, "metrics": metrics, "rounds": [{"flaws": []}, late]}
        return {
            "scenarios": [entry],
            "relations": [{"name": "replicas-rate", "ratio": ratio, "verdict": held}],
            "ranges": [{"name": "replicas-range", "verdict": "PASS"}],
        }

    runs = [run(100, 2, "PASS"), run(400, 3, "PASS"), run(120, 4.5, "REGRESSED"), run(9e9, None, "INVALID", "INVALID")]
    measured = collected(runs)
    assert measured["scenarios"] == {"replicas-3": {"records_per_s": 120}}
    shown = page(FAMILIES, HERE, {"machine": "one", "commands": ["two"], **measured})
    assert "| 3.00 (2.00 .. 4.50); green in 2 of 4, 1 INVALID, 1 REGRESSED |" in shown
    near = collected([run(100, 1.2, "PASS"), run(100, 2, "PASS")])
    shown_near = page(FAMILIES, HERE, {"machine": "one", "commands": ["two"], **near})
    assert "| 1.60 (1.20 .. 2.00); green in 1 of 2 |" in shown_near, "--relations-only has a wider bound than the page"
    assert "; green in 4 of 4 |" in shown


def test_more_runs_add_to_what_held_a_relation_and_leave_the_figures() -> None:
    relations = [{"name": "acks-none", "ratio": 1.5, "verdict": "PASS"}, {"name": "new", "ratio": 2, "verdict": "PASS"}]
    run = {"scenarios": [], "relations": relations, "ranges": [{"name": "replicas-range", "verdict": "INCONCLUSIVE"}]}
    before = {
        "acks-none": {"ratios": [1.72], "verdicts": ["PASS"]},
        "replicas-range": {"ratios": [], "verdicts": ["PASS"]},
        "log-dirs-rate": {"ratios": [1.24]},
    }
    assert held_again(before, [run, run]) == {
        "acks-none": {"ratios": [1.72, 1.5, 1.5], "verdicts": ["PASS"] * 3},
        "replicas-range": {"ratios": [], "verdicts": ["PASS", "INCONCLUSIVE", "INCONCLUSIVE"]},
        "log-dirs-rate": {"ratios": [1.24]},
        "new": {"ratios": [2, 2], "verdicts": ["PASS", "PASS"]},
    }


def test_a_whole_nightly_is_shown_with_its_time_and_the_spread_of_its_rounds() -> None:
    rate = {"value": 24_870.0, "spread": 0.22}
    night = night_of(
        {
            "time": {"total_s": 4705.0, "phases_s": {"measured windows": 2795.0, "judging": 15.0}},
            "scenarios": [
                {"name": "batch-1k", "verdict": "MISSING", "metrics": {"records_per_s": rate}},
                {"name": "replicas-4-refused", "verdict": "PASS", "metrics": {}},
                {"name": "acks-all", "verdict": "INVALID", "metrics": {"records_per_s": rate}},
            ],
            "relations": [
                {"name": "acks-rate", "ratio": None, "verdict": "INVALID"},
                {"name": "acks-cpu", "ratio": 0.95, "verdict": "PASS"},
            ],
            "ranges": [
                {
                    "name": "partitions-range",
                    "verdict": "PASS",
                    "steps": [{"ratio": 1.42}, {"ratio": None}, {"ratio": 0.971}],
                }
            ],
        }
    )
    shared = [held.here(shares_cores=True) for held in HELD]
    shown = page(
        FAMILIES, shared, {"machine": "", "commands": [], "nightly": {"machine": "m", "command": "c", **night}}
    )
    assert "78 min, of which measured windows 59 %; 2 of 3 scenarios with a valid load, 2 of 3" in shown.replace(
        "\n", " "
    )
    assert "| `batch-1k` | 24,870 (22 %) |  |  |  |  |" in shown
    assert "| `acks-all` | 24,870" not in shown
    assert re.search(r"\| `partitions-range` \| 1.42, 0.97 \| does not fall.* \| PASS \|", shown), "every step of it"
    assert "| `acks-cpu` | 0.95 | 1.15 .. 10 | PASS, by a minimum of 0.9 (--relations-only) |" in shown
    (absent,) = re.findall(r"Not in it: ([^.]*)\.", shown)
    assert {"acks-all", "linger-0"} <= set(absent.replace("\n", " ").split(", ")), "it was invalid; it came later"
    assert "## One whole nightly" not in page(FAMILIES, HERE, None)


def verdict(relation: PairRelation, ratio: float) -> Verdict:
    """Return the verdict when `of` is so many times `over`, in seven rounds."""

    def rounds(name: str, value: float) -> object:
        found = [
            replace(one_round(n, 1000), metrics={relation.metric.name: value * (1 + n / 1000)}) for n in range(1, 8)
        ]
        return replace(measurement([1000] * 7), scenario=scenario(name), rounds=tuple(found))

    both = {relation.of: rounds(relation.of, 1000 * ratio), relation.over: rounds(relation.over, 1000)}
    return judge_relation(relation, both).verdict  # type: ignore[arg-type]


@pytest.mark.parametrize("held", RELATIONS, ids=repr)
def test_a_relation_is_red_beyond_both_of_its_ends(held: PairRelation) -> None:
    middle = (held.at_least * held.at_most) ** 0.5
    assert verdict(held, middle) is Verdict.PASS
    assert verdict(held, held.at_least / 1.2) is Verdict.REGRESSED
    assert verdict(held, held.at_most * 1.2) is Verdict.REGRESSED


@pytest.mark.parametrize("held", [r for r in RELATIONS if r.at_least > 1], ids=repr)
def test_a_relation_with_a_direction_is_red_when_its_sides_are_swapped(held: PairRelation) -> None:
    middle = (held.at_least * held.at_most) ** 0.5
    assert verdict(held, 1 / middle) is Verdict.REGRESSED


FOUND = json.loads(MEASURED.read_text())
CLEAR = 1.5
"""A ratio nearer to 1 says nothing of a direction."""
DIRECTED = [
    (held, ratio)
    for held in HERE
    if isinstance(held, PairRelation)
    and (ratios := FOUND["relations"].get(held.name, {}).get("ratios"))
    and not 1 / CLEAR < (ratio := median(ratios)) < CLEAR
    and held.shared_cores is None
    and (held.at_least >= 1 / CLEAR or held.at_most <= CLEAR)  # others are stated of the order alone
]


@pytest.mark.parametrize(("held", "ratio"), DIRECTED, ids=[held.name for held, _ in DIRECTED])
def test_what_was_measured_is_red_with_its_sides_swapped(held: PairRelation, ratio: float) -> None:
    """Bounds of latencies were so wide that they took either side for the other."""
    assert verdict(held, ratio) is Verdict.PASS
    assert verdict(held, 1 / ratio) is Verdict.REGRESSED


def of_range(held: RangeRelation) -> dict[str, float]:
    """Return what was measured of the scenarios over which it rises or falls."""
    metric, figures = held.metric.name, FOUND["scenarios"]
    return {name: figures[name][metric] for name in held.leg if metric in figures.get(name, {})}


SLOPES = [
    held
    for held in HERE
    if isinstance(held, RangeRelation)
    and held.goes
    and len(found := of_range(held).values()) > 1
    and max(found) > CLEAR * min(found)
    and not held.lacks(of_range(held))
]


@pytest.mark.parametrize("held", SLOPES, ids=repr)
def test_a_range_that_was_measured_is_red_from_its_other_end(held: RangeRelation) -> None:
    values = of_range(held)
    turned = dict(zip(values, reversed(values.values()), strict=True))
    steps = held.among(values).steps
    found = {verdict(step, turned[step.of] / turned[step.over]) for step in steps if set(step.names) <= turned.keys()}
    assert Verdict.REGRESSED in found
