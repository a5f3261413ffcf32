"""A/A pairs of recorded runs: which runs count, and that a profile gets them by an explicit command alone."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.catalogue.kafka import FAMILIES
from perfgate.catalogue.pulsar import FAMILIES as PULSAR
from perfgate.fixtures.book import Book, recorded_pairs
from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.thresholds import load_profile
from perfgate.judge.units import unit_logs
from perfgate.model import Comparison, Consumers, Load, Profile
from perfgate.model.command import command_line
from perfgate.model.compared import declared_digest
from perfgate.model.usual import TIERS
from perfgate.report.recorded_pairs import command, of_nothing, pairs_of
from perfgate.report.results import (
    comparison_entry,
    load_run,
    recorded_comparisons,
    recorded_measurement,
    recorded_measurements,
    scenario_entry,
)
from tests.harness.build import measurement, scenario
from tests.harness.called import called
from tests.harness.judge.test_recorded_pairs import recorded
from tests.harness.run_gate import ROOT


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = load_run(ROOT / "tests/harness/data/run.json")
    return found


def compared(document: dict[str, Any], method: Any = "pairs") -> Comparison:
    one, other = list(recorded_measurements(document).values())[:2]
    return Comparison(
        change="nothing",
        baseline=one,
        candidate=replace(other, scenario=one.scenario),
        method=method,
        rounds_per_unit=1,
        planned_units=3,
        orders=("ABBA BAAB",) * 3,
        minutes=1.5,
    )


def written(folder: Path, number: int, document: dict[str, Any], change: dict[str, Any], **others: Any) -> None:
    found = compared(document, others.pop("method", "pairs"))
    run_id = f"2026112{number}T000000Z-0000"
    entry = comparison_entry(found, judge_comparison(found))
    run = {**document, "run_id": run_id, "change": change, "comparisons": [entry], "scenarios": [], **others}
    (folder / run_id).mkdir(parents=True)
    (folder / run_id / "run.json").write_text(json.dumps(run))


AA = {"name": "nothing, on pairs of clusters", "budget_s": 600, "pairs": True}


def test_recorded_pairs_survive_the_way_through_run_json(document: dict[str, Any]) -> None:
    found = replace(compared(document), recorded=(recorded(),))
    again = json.loads(json.dumps(comparison_entry(found, judge_comparison(found)), allow_nan=False))
    read = recorded_comparisons({**document, "comparisons": [again]})[found.scenario.name]
    assert read.recorded == found.recorded
    assert judge_comparison(read) == judge_comparison(found)


def test_pairs_are_written_when_they_are_accepted_and_only_then(
    tmp_path: Path, document: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    results, thresholds = tmp_path / "results", tmp_path / "thresholds"
    thresholds.mkdir()
    asked = [f"--results={results}", f"--thresholds={thresholds}"]
    assert called(command, *asked) == 2
    assert f"{command_line('compare', 'changes/nothing-on-pairs.toml')} makes one" in capsys.readouterr().err
    name = compared(document).scenario.name
    effects = [round(x, 5) for x in unit_logs(compared(document), "records_per_s")]
    written(results, 1, document, AA)
    assert called(command, *asked, "--accept") == 1
    assert "too few: 5 are needed" in capsys.readouterr().out
    written(results, 2, document, AA)
    written(results, 3, document, {**AA, "producer": {"linger.ms": "5"}})
    written(results, 4, document, AA, modified=["producer.linger.ms=5"])
    written(results, 5, document, AA, driver="java")
    (results / "20261125T000000Z-0000").rename(results / "20261101T000000Z-0000")  # older than those that it is unlike
    run = json.loads((results / "20261101T000000Z-0000" / "run.json").read_text())
    (results / "20261101T000000Z-0000" / "run.json").write_text(json.dumps({**run, "run_id": "20261101T000000Z-0000"}))
    assert called(command, *asked) == 0
    said = capsys.readouterr().out
    assert "2 run(s): " in said
    assert f"{2 * len(effects):>4} pairs" in said
    assert "nothing was written; to write " in said
    assert not list(thresholds.iterdir())
    assert called(command, *asked, "--accept") == 0
    (path,) = thresholds.iterdir()
    stored = {one.metric: one for one in load_profile(path).pairs[name]}
    assert list(stored["records_per_s"].effects) == effects * 2
    assert stored["records_per_s"].window_s == document["tier"]["window_s"]
    assert stored["records_per_s"].declared == declared_digest(compared(document).scenario)
    before = path.read_text().replace("[pairs.", "# a remark\n[pairs.", 1)
    path.write_text(before)
    assert called(command, *asked, "--accept") == 0
    assert load_profile(path).pairs[name] == tuple(stored.values()), "replaced, not added to"
    assert "# a remark" in path.read_text()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("window_s", "declared"), [(None, ""), (5.0, "abc")])
def test_what_older_entries_lack_is_known_of_shipped_scenarios_alone(
    document: dict[str, Any], window_s: float | None, declared: str, own: bool
) -> None:
    """Pairs of a scenario of one's own counted whatever had been edited in it since."""
    row, usual_s = scenario(), TIERS[document["tier"]["name"]].window_s
    kept = replace(recorded(), window_s=window_s, declared=declared)
    pairs = {row.name: (kept,), "other": (kept,)}
    held = Profile(name="here", facts={"target": "embedded"}, thresholds={}, path="here.toml", pairs=pairs)
    book = Book(**{name: document[name] for name in ("tier", "driver", "target", "environment")})
    family: Any = Mock()
    family.name = row.families[0]
    config: Any = Mock(held=Mock(profiles={"here": held}), own_families=(family,) if own else ())
    (found,) = recorded_pairs(config, book, [row])[row.name]
    assert found.window_s == (window_s or usual_s)
    assert found.declared == (declared or ("" if own else declared_digest(row)))
    assert recorded_pairs(config, replace(book, modified=("producer.linger.ms=5",)), [row]) == {}


@pytest.mark.parametrize("orders", ["ABBA BAAB", "ABBA"])
def test_the_window_of_blocks_is_that_of_their_rounds(document: dict[str, Any], orders: str) -> None:
    """Rounds that were lengthened for the brokers' CPU were kept under the window of the tier."""
    found = compared(document)
    sides = {
        side: replace(m, rounds=tuple(replace(r, window_s=22.0) for r in m.rounds))
        for side, m in (("baseline", found.baseline), ("candidate", found.candidate))
    }
    size = 2 if len(orders) == 4 else 1
    found = replace(found, **sides, rounds_per_unit=size, orders=(orders,) * 3)  # type: ignore[arg-type]
    entry = comparison_entry(found, judge_comparison(found))
    (by_metric,) = pairs_of([{**document, "comparisons": [{**entry, "verdict": "SAME"}]}]).values()
    assert {one.window_s for one in by_metric.values()} == {22.0 if size == 2 else document["tier"]["window_s"]}
    assert {one.declared for one in by_metric.values()} == {declared_digest(found.scenario)}


def test_a_declaration_is_known_again_from_run_json() -> None:
    for family in (*FAMILIES, *PULSAR):
        for row in family.scenarios:
            entry = json.loads(json.dumps(scenario_entry(replace(measurement([1000.0]), scenario=row), None)))
            assert declared_digest(recorded_measurement(entry).scenario) == declared_digest(row), row.name


def test_a_declaration_is_another_one_with_each_field_of_the_load() -> None:
    row = scenario()
    other_words = replace(row, name="x", summary="y", families=("z",), factor=(), tier="full")
    release = replace(row, cluster=replace(row.cluster, version="3.9.1"))
    assert declared_digest(row) == declared_digest(other_words) == declared_digest(release)
    edited = [
        replace(row, record_bytes=512),
        replace(row, load=Load(kind="capped", rate=5.0)),
        replace(row, load=Load(kind="paced", rate=row.load.rate)),
        replace(row, producer=(("acks", "all"),)),
        replace(row, topic=replace(row.topic, partitions=4)),
        replace(row, consumers=Consumers(membership="group")),
        replace(row, cluster=replace(row.cluster, brokers=1)),
    ]
    assert len({declared_digest(one) for one in (row, *edited)}) == 8


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (AA, True),
        (None, False),
        ({"name": "nothing", "budget_s": 600}, False),
        ({**AA, "commands": {"apply": "true"}}, False),
        ({**AA, "link": "cross-zone"}, False),
    ],
)
def test_only_nothing_on_pairs_counts(change: dict[str, Any] | None, counts: bool) -> None:
    assert of_nothing({"change": change, "modified": [], "replay_of": None}) is counts
