"""run.json: its schema, damage that is refused, and what is read back as it was measured."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perfgate.judge.claims.same import judge_comparison
from perfgate.model import FAULTS, METRICS, ClusterSpec, Comparison, Fault, FaultScenario, Outcome, Verdict
from perfgate.model.declared import LINKS
from perfgate.model.errors import ConfigurationError
from perfgate.report.entries import RunFacts
from perfgate.report.results import (
    baseline_entries,
    comparison_entry,
    load_run,
    recorded_baselines,
    recorded_comparisons,
    recorded_measurements,
    run_document,
    scenario_entry,
    write_run,
)
from perfgate.report.schema import schema_text
from tests.harness.build.recorded import SCHEMA, SCHEMA_FILE
from tests.harness.run_gate import Finished


def test_the_recorded_run_and_its_replay_keep_to_the_schema(document: dict[str, Any], replayed: Finished) -> None:
    for run in (document, replayed.run):
        jsonschema.validate(run, SCHEMA, format_checker=jsonschema.FormatChecker())


def test_the_schema_knows_every_metric() -> None:
    legal = SCHEMA["$defs"]["ScenarioEntry"]["properties"]["metrics"]["propertyNames"]["pattern"]
    assert [name for name in METRICS if not re.fullmatch(legal, name)] == []


def test_the_schema_is_what_the_types_make() -> None:
    assert SCHEMA_FILE.read_text() == schema_text(), "kafka-perf-gate schema docs/run.schema.json"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"window_s": "3"}, "rounds.0.window_s = '3' Input should be a valid number"),
        ({"window_s": True}, "rounds.0.window_s = True"),
        ({"index": 1.0}, "rounds.0.index = 1.0 Input should be a valid integer"),
        ({"metrics": {"records_per_s": None}}, "rounds.0.metrics.records_per_s = None"),
        ({"metrics": {"records_per_s": float("nan")}}, "rounds.0.metrics.records_per_s = nan Input should be a finite"),
        ({"metrics": {"records_per_s": float("inf")}}, "rounds.0.metrics.records_per_s = inf Input should be a finite"),
        ({"flaws": "a broker died"}, "rounds.0.flaws = 'a broker died'"),
        ({"flaws": [{"text": 1}]}, "rounds.0.flaws.0.text = 1 Input should be a valid string"),
        ({"invalied": []}, "rounds.0.invalied = [] Unexpected keyword argument"),
        ({"accounting": {"partitions": []}}, "lacks the key 'rounds.0.accounting.attempted'"),
    ],
)
def test_a_damaged_round_is_an_error_that_names_the_place(
    document: dict[str, Any], change: dict[str, Any], words: str
) -> None:
    """Nothing is converted: a text that looks like a number could be any."""
    damaged = json.loads(json.dumps(document))
    damaged["scenarios"][0]["rounds"][0] |= change
    with pytest.raises(ConfigurationError) as caught:
        recorded_measurements(damaged)
    assert f"run.json is damaged: scenario '{damaged['scenarios'][0]['name']}': {words}" in str(caught.value)


@pytest.mark.parametrize("key", ["flaws", "reading", "not_sustained", "accounting.partitions", "accounting"])
def test_a_round_that_lacks_what_makes_it_invalid_is_damaged(document: dict[str, Any], key: str) -> None:
    """The model's default would stand in for it: a valid round."""
    damaged = json.loads(json.dumps(document))
    table, _, inner = key.rpartition(".")
    del (damaged["scenarios"][0]["rounds"][0][table] if table else damaged["scenarios"][0]["rounds"][0])[inner]
    with pytest.raises(ConfigurationError, match=rf"run\.json is damaged: KeyError\('{inner}'\)"):
        recorded_measurements(damaged)
    with pytest.raises(jsonschema.ValidationError, match=f"'{inner}' is a required property"):
        jsonschema.validate(damaged, SCHEMA)


def test_a_run_without_an_entrys_name_is_damaged() -> None:
    runs: tuple[dict[str, Any], ...] = ({}, {"scenarios": [{}]}, {"scenarios": ["batch-1k"]})
    for damaged in runs:
        with pytest.raises(ConfigurationError, match=r"run\.json is damaged"):
            recorded_measurements(damaged)


def test_what_is_no_number_is_never_written(tmp_path: Path, document: dict[str, Any]) -> None:
    name, measurement = next(iter(recorded_measurements(document).items()))
    (first, *others) = measurement.rounds
    spoilt = replace(first, metrics={**first.metrics, "records_per_s": math.nan})
    entry = scenario_entry(replace(measurement, rounds=(spoilt, *others)), None)
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_run({"scenarios": [entry]}, tmp_path / f"{name}.json")


def test_the_schema_refuses_what_it_should(document: dict[str, Any]) -> None:
    for key in ("schema", "target", "scenarios"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({k: v for k, v in document.items() if k != key}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "surprise": 1}, SCHEMA)


def test_measurements_survive_the_way_through_run_json(document: dict[str, Any]) -> None:
    for entry in document["scenarios"]:
        measurement = recorded_measurements(document)[entry["name"]]
        again = json.loads(json.dumps(scenario_entry(measurement, None)))
        added = {
            "declared": {
                **entry["declared"],
                "refusal": "",
                "client_version": "",
                "transaction_ms": 0.0,
                "sizes": None,
                "keys": {**entry["declared"]["keys"], "exponent": 0.0, "share": 0.0},
                "beside": [],
                "topic": {**entry["declared"]["topic"], "count": 1},
                "crowd": None,
                "cluster": {**entry["declared"]["cluster"], "log_dirs": 1, "home": "", "security": "plaintext"},
            },
            "rounds": [
                {
                    **r,
                    "steps": [],
                    "hosts": [],
                    "partitions": [],
                    "topics": [],
                    "beside": [],
                    "broker_cpu_over_time": {},
                    "untold": {},
                    "growth": 1.0,
                    "shape": None,
                    "lag_over_time": [],
                    "target_unhealthy": False,
                    "accounting": {**r["accounting"], "markers": 0},
                }
                for r in entry["rounds"]
            ],
            "accounting": {**entry["accounting"], "markers": 0},
            "load": {
                **entry["load"],
                "probes": False,
                "times_out": False,
                "share_of_knee": 0.0,
                "level_p99_ms": 0.0,
                "knee": "",
                "shape": None,
            },
        }
        for key in ("metrics", "rounds", "accounting", "load", "link", "declared", "generator"):
            assert again[key] == added.get(key, entry[key])


def test_scenarios_of_one_cluster_keep_its_log_once(document: dict[str, Any]) -> None:
    """60 % of a smoke run's file was one log, once a scenario; where a threshold is missing no broker is to blame."""
    measured = [
        replace(one, broker_log_tail="WARN it is full") for one in list(recorded_measurements(document).values())[:3]
    ]
    red, green, missing = (
        Outcome(name=one.scenario.name, verdict=verdict, judgements=())
        for one, verdict in zip(measured, (Verdict.REGRESSED, Verdict.PASS, Verdict.MISSING), strict=True)
    )

    def logs(*outcomes: Outcome) -> list[str]:
        rows = list(zip(measured, outcomes, strict=False))
        facts = RunFacts(**{name: document[name] for name in RunFacts.__annotations__ if name in document})
        made = run_document(facts, rows, (), (), (), (), {}, ())
        return [entry["broker_log_tail"] for entry in made["scenarios"]]

    assert logs(missing, green) == ["", ""]
    assert logs(red, replace(red, name=green.name)) == ["WARN it is full", f"(that of {red.name})"]


def test_a_row_measured_beside_another_family_survives_the_way_through_run_json(document: dict[str, Any]) -> None:
    """So do a refusal, a fault, and every link there is."""
    assert recorded_baselines(document) == {}, "a recording of before there were any"
    plain = next(iter(recorded_measurements(document).values()))
    rows = [replace(plain.scenario, link=link) for link in LINKS.values()]
    rows += [replace(plain.scenario, refusal="INVALID_REPLICATION_FACTOR")]
    rows += [FaultScenario.of(plain.scenario, Fault(kind=kind, hold_s=20.0, repeats=3)) for kind in FAULTS]
    beside = {(f"family-{number}", row.name): replace(plain, scenario=row) for number, row in enumerate(rows)}
    written = {**document, "baselines": baseline_entries(beside)}
    jsonschema.validate(written, SCHEMA)
    again = recorded_baselines(json.loads(json.dumps(written, allow_nan=False)))
    assert [*again] == [*beside]
    for row, one in zip(rows, again.values(), strict=True):
        assert (one.scenario, one.rounds) == (row, plain.rounds)
    written["baselines"][-1]["declared"]["fault"]["kind"] = "flood"
    with pytest.raises(ConfigurationError, match="unknown fault 'flood'"):
        recorded_baselines(written)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, SCHEMA)


def test_a_comparison_survives_the_way_through_run_json(document: dict[str, Any]) -> None:
    one, other = list(recorded_measurements(document).values())[:2]
    compared = Comparison(
        change="linger 5",
        baseline=one,
        candidate=replace(other, scenario=one.scenario),
        method="turns",
        rounds_per_unit=1,
        planned_units=3,
        orders=("ABBA BAAB",) * 3,
        minutes=1.5,
    )
    again = json.loads(json.dumps(comparison_entry(compared, judge_comparison(compared)), allow_nan=False))
    written = {**document, "change": {"name": "linger 5", "budget_s": 600}, "comparisons": [again]}
    jsonschema.validate(written, SCHEMA)
    read = recorded_comparisons(written)[one.scenario.name]
    for side, before in ((read.baseline, compared.baseline), (read.candidate, compared.candidate)):
        assert (side.rounds, side.scenario) == (before.rounds, before.scenario)
    assert replace(read, baseline=one, candidate=other) == replace(compared, candidate=other)
    again["minutes"] = "1.5"
    with pytest.raises(ConfigurationError, match=r"damaged: comparison of '[a-z0-9-]+': minutes = '1\.5'"):
        recorded_comparisons(written)


def test_a_run_that_was_recorded_before_metrics_could_be_spoilt_is_read(
    document: dict[str, Any], tmp_path: Path
) -> None:
    older = json.loads(json.dumps(document))
    for entry in older["scenarios"]:
        for recorded in entry["rounds"]:
            del recorded["flaws"], recorded["generator"]["wake_delay_p99_ms"]
            recorded["invalid"] = []
    (tmp_path / "run.json").write_text(json.dumps({**older, "schema": 4}))
    assert recorded_measurements(load_run(tmp_path / "run.json")) == recorded_measurements(document)


def test_a_run_of_before_there_were_two_systems_was_of_kafka(document: dict[str, Any], tmp_path: Path) -> None:
    older = json.loads(json.dumps(document))
    cluster = older["scenarios"][0]["declared"]["cluster"]
    for entry in older["scenarios"]:
        for name in ("system", "bookies", "bookie_config"):
            del entry["declared"]["cluster"][name]
        entry["declared"]["cluster"]["kafka_version"] = entry["declared"]["cluster"].pop("version")
        del entry["declared"]["topic"]["ack_quorum"]
    older["baselines"] = [{**json.loads(json.dumps(older["scenarios"][0])), "beside": "acks"}]
    cluster["kafka_version"] = "3.9.1"
    (tmp_path / "run.json").write_text(json.dumps({**older, "schema": 5}))
    read = load_run(tmp_path / "run.json")
    assert [entry["declared"] for entry in read["scenarios"][1:]] == [e["declared"] for e in document["scenarios"][1:]]
    assert (
        read["scenarios"][0]["declared"]["cluster"] | {"version": "4.3.1"}
        == document["scenarios"][0]["declared"]["cluster"]
    )
    assert read["scenarios"][0]["declared"]["cluster"]["version"] == "3.9.1"
    (beside,) = recorded_baselines(read).values()
    assert beside.scenario.cluster == ClusterSpec(
        version="4.3.1", config=beside.scenario.cluster.config, jvm_options=beside.scenario.cluster.jvm_options
    )
