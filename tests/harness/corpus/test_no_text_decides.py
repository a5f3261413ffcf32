"""No verdict depends on how a reason is worded: of every recorded run it is the same with all of them replaced."""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.judge.bounds_files import load_ratios
from perfgate.judge.claims.ratio import judge_against_reference
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.thresholds import load_profiles
from perfgate.model import Comparison, Measurement, Round
from perfgate.report.results import load_run, recorded_comparisons, recorded_measurements
from tests.harness.corpus.freeze import RECORDED, THRESHOLDS

NAMES = [path.name.removesuffix(".json.gz") for path in sorted(RECORDED.glob("*.json.gz"))]


def reworded(rounds: Sequence[Round]) -> tuple[Round, ...]:
    return tuple(
        replace(
            r,
            flaws=tuple(replace(flaw, text="x") for flaw in r.flaws),
            not_sustained="x" if r.not_sustained else "",
            usage_unavailable="x" if r.usage_unavailable else "",
        )
        for r in rounds
    )


def of(found: Measurement) -> Measurement:
    return replace(
        found,
        rounds=reworded(found.rounds),
        discarded=reworded(found.discarded),
        warm_up=reworded(found.warm_up),
        one_host_fewer=reworded(found.one_host_fewer),
        warming="x" if found.warming else "",
    )


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_are_those_of_the_figures(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(gzip.decompress((RECORDED / f"{name}.json.gz").read_bytes()))
    run = load_run(path)
    for profile in (None, *load_profiles(THRESHOLDS).values()):
        for one in recorded_measurements(run).values():
            found, again = judge_scenario(one, profile), judge_scenario(of(one), profile)
            assert (again.verdict, [j.verdict for j in again.judgements]) == (
                found.verdict,
                [j.verdict for j in found.judgements],
            ), one.scenario.name
    ratios = load_ratios(THRESHOLDS)
    for compared in recorded_comparisons(run).values():
        other: Comparison = replace(compared, baseline=of(compared.baseline), candidate=of(compared.candidate))
        assert judge_comparison(other).effect is judge_comparison(compared).effect
        assert judge_against_reference(other, ratios).verdict is judge_against_reference(compared, ratios).verdict
