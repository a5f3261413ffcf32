"""The published error rates of comparisons: what is kept of a run, what is still to be made, what is drawn from it."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.compare_figures import print_tables
from benchmarks.compare_lines import LINES, Line, chosen, comparison_facts, note, recorded
from benchmarks.compare_quality import missing
from benchmarks.compare_resampled import Pool, drawn
from benchmarks.warm_cluster import BY_NAME as SCENARIOS
from perfgate.judge.claims.same import judge_comparison
from perfgate.model import Comparison, Effect, with_changes
from perfgate.model.errors import ConfigurationError
from perfgate.report.results import comparison_entry
from tests.harness.build import flawed
from tests.harness.build.comparisons import comparison

BY_NAME = {line.name: line for line in LINES}
MACHINE = {"cpu_model": "x", "cores": 2, "memory_mib": 1, "kernel": "k", "commit": "c"}


def noise(seed: int, units: int, scatter: float) -> list[float]:
    return [float(x) for x in np.exp(np.random.default_rng(seed).normal(0, scatter / 2, units))]


def entry_of(line: Line, compared: Comparison) -> dict[str, Any]:
    """Return what is recorded of a comparison, by way of run.json's text."""
    before, after = (
        replace(m, rounds=tuple(flawed(r, invalid_metrics={}) for r in m.rounds))
        for m in (compared.baseline, compared.candidate)
    )
    found = comparison_entry(replace(compared, baseline=before, candidate=after), judge_comparison(compared))
    document = {"run_id": "r", "started": "s", "environment": MACHINE, "comparisons": [json.loads(json.dumps(found))]}
    told = {"line": line.name, "change": line.stated, "scenario": line.scenario, "budget_min": line.minutes}
    return {**told, "exit": 0, **comparison_facts(document)}


def entries_of(
    line: Line, *, factor: float = 1.0, scatter: float = 0.06, cpu_us: float = 50.0, **changes: Any
) -> list[dict[str, Any]]:
    return [
        entry_of(line, comparison(factor, noise=noise(seed, 30, scatter), cpu_us=cpu_us, **{"minutes": 5.0} | changes))
        for seed in range(3)
    ]


def counts(pool: Pool | None, effect: float | None, **changes: Any) -> Counter[Effect]:
    assert pool is not None
    return Counter(one.effect for one in drawn(pool, effect, 5.0, seed=1, **{"times": 40} | changes))


def test_units_come_back_as_they_were_recorded() -> None:
    line, compared = BY_NAME["dynamic-same"], comparison(0.9, noise=noise(7, 12, 0.05))
    pool = Pool.of([entry_of(line, compared)])
    assert pool is not None
    again, before = judge_comparison(pool.comparison(pool.units)), judge_comparison(compared)
    assert (again.effect, again.units) == (before.effect, before.units)
    assert again.primary is not None
    assert before.primary is not None
    assert again.primary.interval == pytest.approx(before.primary.interval, rel=1e-3)


@pytest.mark.parametrize(("method", "units"), [("pairs", [2] * 6), ("rounds", [1] * 12)])
def test_rounds_of_a_unit_stay_together_of_pairs_alone(method: Any, units: list[int]) -> None:
    compared = comparison(0.9, noise=noise(7, 12, 0.05), rounds_per_unit=2, method=method, orders=("ABBA",) * 6)
    pool = Pool.of([entry_of(BY_NAME["dynamic-same"], compared)])
    assert pool is not None
    assert [len(unit.baseline) for unit in pool.units] == units
    assert pool.unit_min * len(units) == pytest.approx(compared.minutes)


def test_nothing_is_drawn_false_and_an_effect_is_found() -> None:
    pool = Pool.of(entries_of(BY_NAME["dynamic-same"]))
    nothing = counts(pool, 0.0)
    assert nothing[Effect.SLOWER] + nothing[Effect.FASTER] <= 1
    assert counts(pool, -0.2)[Effect.SLOWER] == 40
    assert counts(pool, 0.2)[Effect.FASTER] == 40


def test_what_a_same_is_held_to_besides_is_judged_too() -> None:
    """The brokers need 1.3 times the CPU: at the same rate that is SLOWER, and so are comparisons drawn from it."""
    pool = Pool.of(entries_of(BY_NAME["dynamic-10"], scatter=0.02, cpu_us=65.0))
    assert counts(pool, None)[Effect.SLOWER] == 40
    assert counts(pool, 0.0)[Effect.SAME] == 40, "with the mean of every metric taken off nothing differs"


def test_pairs_are_drawn_beside_recorded_ones() -> None:
    compared = [comparison(1.0, noise=noise(seed, 8, 0.05), method="pairs", minutes=16.0) for seed in range(4)]
    pool = Pool.of([entry_of(BY_NAME["fresh-same"], one) for one in compared])
    assert pool is not None
    (found,) = drawn(pool, 0.0, 16.0, seed=1, times=1, beside=True)
    assert found.scatter.startswith("scatter between pairs from 16 recorded A/A pairs")


def test_an_invalid_comparison_gives_no_units() -> None:
    line, compared = BY_NAME["dynamic-same"], comparison(1.0)
    rounds = compared.candidate.rounds
    spoilt = (flawed(rounds[0], invalid=("generator",)), *rounds[1:])
    bad = replace(compared, candidate=replace(compared.candidate, rounds=spoilt))
    assert Pool.of([entry_of(line, bad)]) is None


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    raw, line = tmp_path / "raw.jsonl", BY_NAME["dynamic-same"]
    assert missing(line, recorded(raw)) == line.runs
    note(entry_of(line, comparison(1.0)), raw)
    note({**entry_of(line, comparison(1.0)), "failed": ["no"]}, raw)
    with raw.open("a") as half:
        half.write('{"line": "dynam')
    note(entry_of(line, comparison(1.0)), raw)
    assert len(recorded(raw)) == 3, "one was cut off, what follows it counts"
    assert missing(line, recorded(raw)) == line.runs - 2
    (other,) = chosen(["dynamic-same"], {"dynamic-same": "2"}, {}, {})
    assert missing(other, recorded(raw)) == line.runs, "with another budget it is another line"
    (other,) = chosen(["dynamic-10"], {}, {}, {"dynamic-10": "compression.type=gzip"})
    assert other.stated["broker"] == {"compression.type": "gzip"}


def test_an_unknown_line_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'dynamic' is no line; there are: dynamic-same, "):
        chosen(["dynamic"], {}, {}, {})


def test_comparisons_of_every_line_can_be_drawn_from() -> None:
    """The tables ended in a KeyError at the lines over a link, whose scenario is none of the catalogue."""
    assert {line.scenario for line in LINES if line.resampled} <= {*SCENARIOS}


def test_the_tables_tell_of_every_kind_of_entry(capsys: pytest.CaptureFixture[str]) -> None:
    same, ten, example = (BY_NAME[name] for name in ("dynamic-same", "dynamic-10", "example-zgc"))
    sizes = [
        {"kind": "size", "run": "s", "scenario": "batch-1k", "settings": settings, "round": index, "invalid": []}
        | {"records_per_s": rate + index, "broker_cpu_us_per_record": 50.0}
        for index in range(4)
        for settings, rate in (({}, 1000.0), ({"compression.type": "lz4"}, 900.0))
    ]
    failed = {"line": ten.name, "change": ten.stated, "scenario": ten.scenario, "budget_min": ten.minutes, "exit": 2}
    entries = [*entries_of(same), {**failed, "failed": ["no"]}, *sizes, entry_of(example, comparison(0.9))]
    print_tables([same, ten, example], entries)
    told = capsys.readouterr().out
    assert "4 comparisons on 2 cores x" in told
    assert "| dynamic-same | 3 of 12 | 0 | 0 | 3 |" in told
    assert "| dynamic-10 | 0 of 8 | 0 | 0 | 0 | 0 | 0 | 1 | - | - | - | - |" in told
    assert "| {'compression.type': 'lz4'} | 4 | 1,002 | 902 | -10.0 % (" in told
    assert "| 90 of dynamic-same | " in told
    assert "| example-zgc | 15m | cross-az-2ms-short | records_per_s | -10.0 % | " in told


def test_pairs_scatter_by_more_than_their_bursts_explain(capsys: pytest.CaptureFixture[str]) -> None:
    """Four pairs 20 % apart from one another, whose six bursts scatter by 1 %."""
    rng = np.random.default_rng(3)
    pairs = np.exp(np.repeat([-0.3, -0.1, 0.1, 0.3], 6))
    compared = comparison(
        1.0, noise=[float(x) for x in pairs * np.exp(rng.normal(0, 0.01, 24))], method="pairs", rounds_per_unit=6
    )
    line = replace(BY_NAME["fresh-same"], resampled=())  # which takes a minute, and is another table
    print_tables([line], [entry_of(line, compared)])
    row = r"\| fresh-same \| records_per_s \| 4 \| 6 \| (.+) % \| (.+) % \| (.+) % \|"
    told = re.search(row, capsys.readouterr().out)
    assert told
    within, between, own = map(float, told.groups())
    assert within < 5
    assert between == pytest.approx(own, abs=1)
    assert 40 < between < 60


def test_what_both_sides_have_is_set_on_both() -> None:
    line = BY_NAME["dynamic-10-2ms"]
    assert line.options == ("--family", "cross-az", "--set", "producer.queue.buffering.max.kbytes=512")
    assert dict(with_changes(SCENARIOS[line.scenario], line.both).producer)["queue.buffering.max.kbytes"] == "512"
