"""metrics.prom, metrics.csv and JUnit properties: valid figures alone; texts that end no label and start no formula."""

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.same import judge_comparison
from perfgate.model import METRICS, Verdict
from perfgate.report.exports import (
    COLUMNS,
    FORMULA,
    comparison_properties,
    exported,
    metrics_csv,
    metrics_text,
    text_cell,
    valid_figures,
)
from perfgate.report.results import comparison_entry, load_run, recorded_measurements, write_run
from tests.harness.build import flaw_entry, measurement, one_round
from tests.harness.build.comparisons import comparison
from tests.harness.build.recorded import RECORDED
from tests.harness.forked import gate
from tests.harness.run_gate import RECORDED_THRESHOLDS

LABEL = r'[a-z_]+="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"([a-z0-9_]+)\{{((?:{LABEL}(?:,(?=[a-z_]))?)*)\}} (\S+)")

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None and not os.environ.get("PROMETHEUS_REQUIRED"),
    reason="no `promtool` on the PATH (Debian: apt-get install prometheus)",
)


@pytest.fixture(scope="module")
def text(document: dict[str, Any]) -> str:
    return metrics_text(document, recorded_measurements(document))


def samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Return name, labels and value of every sample. Fails on a line that is neither sample nor comment."""
    for line in text.split("\n")[:-1]:
        if not line.startswith("# "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            labels = dict(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', found[2]))
            yield found[1], labels, float(found[3])


def test_every_metric_has_a_series_of_its_own_in_base_units() -> None:
    more = ("broker_cpu_cores.1", "broker_cpu_cores.bookies", "part.noisy.latency_ms.p99", "part.other.latency_ms.p99")
    every = [exported(metric) for metric in (*METRICS, *more)]
    assert len({(one.named(), *one.labels.items()) for one in every}) == len(every)
    for one in every:
        assert one.named().endswith(f"_{one.unit}")
        assert not re.search(r"_(ms|us|mib|s|share)(_|$)", one.named()), one
    kinds = {(one.named(), one.kind) for one in every}
    assert len(kinds) == len({name for name, _ in kinds}), "a family has one type"


@pytest.mark.parametrize(
    ("metric", "name", "labels", "factor"),
    [
        ("records_per_s", "kafka_perf_gate_records_per_second", {}, 1),
        ("received_mib_per_s", "kafka_perf_gate_received_bytes_per_second", {}, 1_048_576),
        ("latency_ms.p99", "kafka_perf_gate_latency_seconds", {"quantile": "0.99"}, 1e-3),
        ("latency_ms.p9999", "kafka_perf_gate_latency_seconds", {"quantile": "0.9999"}, 1e-3),
        ("latency_ms.max", "kafka_perf_gate_latency_seconds", {"quantile": "1"}, 1e-3),
        ("latency_ms.avg", "kafka_perf_gate_latency_avg_seconds", {}, 1e-3),
        ("latency_before_ms.p50", "kafka_perf_gate_latency_before_seconds", {"quantile": "0.5"}, 1e-3),
        ("broker_cpu_us_per_record", "kafka_perf_gate_broker_cpu_seconds_per_record", {}, 1e-6),
        ("broker_cpu_cores.2", "kafka_perf_gate_broker_cpu_cores", {"broker": "2"}, 1),
        ("broker_cpu_cores.bookies", "kafka_perf_gate_broker_cpu_cores", {"role": "bookies"}, 1),
        ("broker_rss_mib.max", "kafka_perf_gate_broker_rss_bytes", {"aggregate": "max"}, 1_048_576),
        ("broker_compile_share.max", "kafka_perf_gate_broker_compile_ratio", {"aggregate": "max"}, 1),
        ("outage_s.median", "kafka_perf_gate_outage_seconds", {"aggregate": "median"}, 1),
        ("outage_partition_seconds", "kafka_perf_gate_outage_partition_seconds", {}, 1),
        ("outage_affected", "kafka_perf_gate_outage_affected_partitions", {}, 1),
        ("isr_shrinks", "kafka_perf_gate_isr_shrinks", {}, 1),
    ],
)
def test_units_are_converted(metric: str, name: str, labels: dict[str, str], factor: float) -> None:
    found = exported(metric)
    assert (found.named(), found.labels, found.factor) == (name, labels, factor)


def test_the_file_has_every_figure_of_the_run(document: dict[str, Any], text: str) -> None:
    found = {(name, *sorted(labels.items())): value for name, labels, value in samples(text)}
    common = {"target": "embedded", "system": "kafka", "tier": "smoke", "modified": "no"}
    for entry in document["scenarios"]:
        judged = {one["metric"]: one for one in entry["judgements"]}
        of = {"scenario": entry["name"], "family": entry["family"], **common}
        for metric, figure in entry["metrics"].items():
            there, held = exported(metric), judged.get(metric, {})
            labels = sorted({**of, **there.labels}.items())
            assert found[there.named(), *labels] == pytest.approx(figure["value"] * there.factor), metric
            for what in ("baseline", "limit"):
                expected = held.get(what)
                value = found.get((there.named(what), *labels))
                assert value == (None if expected is None else pytest.approx(expected * there.factor)), (metric, what)
    ratios = {labels["relation"]: value for name, labels, value in samples(text) if name.endswith("relation_ratio")}
    assert ratios == {entry["name"]: entry["ratio"] for entry in document["relations"]}


def test_an_upgrade_starts_no_new_series(document: dict[str, Any], text: str) -> None:
    """A release, a commit or a machine as labels would end every series; they are those of the run alone."""
    measured = recorded_measurements(document)
    later = json.loads(json.dumps(document))
    later["target"]["kafka_version"], later["environment"]["commit"] = "9.9.9", "abc"
    later["driver"], later["profile"], later["environment"]["cpu_model"] = "java", None, "another"

    def series(text: str) -> set[tuple[object, ...]]:
        return {(name, *labels.items()) for name, labels, _ in samples(text) if not name.endswith("run_info")}

    upgraded = metrics_text(later, measured)
    assert series(upgraded) == series(text)
    (info,) = (labels for name, labels, _ in samples(upgraded) if name.endswith("run_info"))
    assert (info["version"], info["commit"], info["driver"], info["machine"]) == ("9.9.9", "abc", "java", "another")


def test_families_are_whole_and_described_once(text: str) -> None:
    lines = text.split("\n")
    assert lines[-2:] == ["# EOF", ""]
    order = list(dict.fromkeys(name for name, _, _ in samples(text)))
    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == order
    assert [line.split()[2] for line in lines if line.startswith("# HELP")] == order
    for line in lines:
        if line.startswith("# UNIT"):
            assert line.split()[2].endswith("_" + line.split()[3])
    runs = [name for name, _, _ in samples(text)]
    assert runs == sorted(runs, key=order.index), "samples of a family stand together"


def test_one_verdict_of_each_scenario_is_set(document: dict[str, Any], text: str) -> None:
    states = [(labels, value) for name, labels, value in samples(text) if name == "kafka_perf_gate_scenario_verdict"]
    assert len(states) == len(Verdict) * len(document["scenarios"])
    held = {labels["scenario"]: labels["verdict"] for labels, value in states if value == 1}
    assert held == {entry["name"]: entry["verdict"] for entry in document["scenarios"]}


def test_what_is_not_valid_or_not_judged_is_absent(document: dict[str, Any]) -> None:
    run = json.loads(json.dumps(document))
    by_name = {entry["name"]: entry for entry in run["scenarios"]}
    by_name["acks-all"]["verdict"] = None
    by_name["batch-1k"]["rounds"][0]["flaws"] = [flaw_entry("a broker died")]
    for recorded in by_name["cross-az"]["rounds"]:
        recorded["flaws"] = [flaw_entry("sent late", metrics=("latency_ms",))]
    measurements = recorded_measurements(run)
    found = list(samples(metrics_text(run, measurements)))
    assert not [name for name, labels, _ in found if "verdict" in labels and labels.get("scenario") == "acks-all"]
    of_invalid = [name for name, labels, _ in found if labels.get("scenario") == "batch-1k"]
    assert set(of_invalid) == {"kafka_perf_gate_scenario_verdict"}
    of_spoilt = {name for name, labels, _ in found if labels.get("scenario") == "cross-az"}
    assert "kafka_perf_gate_records_per_second" in of_spoilt
    assert not [name for name in of_spoilt if "_latency_" in name]
    rows = list(csv.DictReader(io.StringIO(metrics_csv(run, measurements))))
    assert {row["scenario"] for row in rows} == set(by_name) - {"batch-1k"}
    assert not [row for row in rows if row["scenario"] == "cross-az" and row["metric"].startswith("latency_ms")]
    assert {row["verdict"] for row in rows if row["scenario"] == "acks-all"} == {""}


def test_the_table_has_a_row_for_each_figure(document: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(metrics_csv(document, recorded_measurements(document)))))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == sum(len(entry["metrics"]) for entry in document["scenarios"])
    (row,) = [row for row in rows if (row["scenario"], row["metric"]) == ("batch-1k", "records_per_s")]
    assert (row["run_id"], row["family"], row["unit"], row["verdict"]) == (
        document["run_id"],
        "batch-size",
        "records/s",
        "PASS",
    )
    figure = next(entry for entry in document["scenarios"] if entry["name"] == "batch-1k")["metrics"]["records_per_s"]
    assert math.isclose(float(row["value"]), figure["value"])
    assert int(row["rounds"]) == len(figure["rounds"])
    judged = next(entry for entry in document["scenarios"] if entry["name"] == "batch-1k")["judgements"]
    held = next(one for one in judged if one["metric"] == "records_per_s")
    assert [float(row[name]) for name in ("baseline", "limit")] == [held["baseline"], held["limit"]]
    assert (row["metric_verdict"], row["target"], row["tier"], row["system"]) == ("PASS", "embedded", "smoke", "kafka")
    assert row["version"] == document["target"]["kafka_version"]
    (unjudged,) = [row for row in rows if (row["scenario"], row["metric"]) == ("batch-1k", "broker_rss_mib.max")]
    assert [unjudged[name] for name in ("baseline", "limit", "metric_verdict")] == ["", "", ""]


def hostile(document: dict[str, Any], text: str) -> tuple[dict[str, Any], Any]:
    """Return a run of one scenario whose names are this text, wherever a broker or a file gives one."""
    run = json.loads(json.dumps({**document, "scenarios": document["scenarios"][:1], "relations": []}))
    measurements = {text: next(iter(recorded_measurements(run).values()))}
    run["scenarios"][0]["name"] = text
    run["scenarios"][0]["family"] = text
    run["scenarios"][0]["factor"] = {text: text}
    run["target"]["name"] = run["target"]["kafka_version"] = run["environment"]["commit"] = text
    return run, measurements


@given(st.text())
def test_any_text_stays_in_its_label_and_in_its_cell(text: str) -> None:
    run, measurements = hostile(load_run(RECORDED), text)
    found = list(samples(metrics_text(run, measurements)))
    shown = {labels["target"] for _, labels, _ in found}
    assert [re.sub(r"\\(.)", lambda at: "\n" if at[1] == "n" else at[1], one) for one in shown] == [text]
    rows = list(csv.reader(io.StringIO(metrics_csv(run, measurements), newline="")))
    assert {len(row) for row in rows} == {len(COLUMNS)}
    texts = [row[:7] + row[-8:] for row in rows]
    assert not [cell for row in texts for cell in row if cell.startswith(FORMULA)]
    assert text_cell(text).removeprefix("'") == text.removeprefix("'")


@needs_promtool
@pytest.mark.parametrize("name", ["embedded", 'a "b"\n# EOF\\ {x="y"} 1'])
def test_promtool_finds_nothing_to_complain_about(document: dict[str, Any], name: str) -> None:
    run, measurements = hostile(document, name)
    every = {metric: 1.5 for metric in (*METRICS, "broker_cpu_cores.1")}
    rounds = tuple(replace(one_round(index, 1.5), metrics=every, latency_histogram="") for index in (1, 2))
    run["scenarios"] = []
    text = metrics_text(run, {name: replace(measurements[name], rounds=rounds)})
    assert len({(name, *labels.items()) for name, labels, _ in samples(text)}) >= len(METRICS)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_files_are_in_the_runs_folder(tmp_path: Path) -> None:
    done = gate(tmp_path, f"--replay={RECORDED}")
    (folder,) = tmp_path.glob("2*")
    assert done.code == 0, done.output
    text = (folder / "metrics.prom").read_text()
    info = next(labels for name, labels, _ in samples(text) if name == "kafka_perf_gate_run_info")
    assert info["run_id"] == done.run["run_id"] == folder.name
    rows = list(csv.DictReader(io.StringIO((folder / "metrics.csv").read_text())))
    assert {row["run_id"] for row in rows} == {folder.name}


def test_a_comparison_leaves_no_figures_over_time(tmp_path: Path, document: dict[str, Any]) -> None:
    found = replace(comparison(0.9), baseline=(one := recorded_measurements(document)["batch-1k"]), candidate=one)
    entry = comparison_entry(found, judge_comparison(found))
    run = {**document, "change": {"name": "a change", "budget_s": 600}, "comparisons": [entry], "scenarios": []}
    write_run(run, tmp_path / "run.json")
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}", "-k", "batch-1k and not relation")
    assert done.run["comparisons"], done.output
    (folder,) = (tmp_path / "results").glob("2*")
    assert (folder / "summary.md").exists()
    assert not list(folder.glob("metrics.*"))


def cases(path: Path) -> dict[str, ElementTree.Element]:
    """Return the test cases of a JUnit file by the scenario or relation."""
    found = ElementTree.parse(path).iter("testcase")  # noqa: S314 - this run wrote it
    return {case.attrib["name"].partition("[")[2].removesuffix("]"): case for case in found}


def properties(case: ElementTree.Element) -> dict[str, str]:
    return {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}


def test_a_red_run_tells_junit_the_sentence_and_the_figures(tmp_path: Path) -> None:
    folder = tmp_path / "thresholds"
    shutil.copytree(RECORDED_THRESHOLDS, folder)
    for name, old, new in (
        ("embedded-2c.toml", r"(\[batch-1k\][^\[]*?records_per_s = \{ ?baseline = )[\d.]+", r"\g<1>90000"),
        (
            "relations.toml",
            r"(\[cross-az.rate.shared_cores\][^\[]*?at_least = )[\d.]+\nat_most = [\d.]+",
            r"\g<1>100\nat_most = 200",
        ),
    ):
        text, count = re.subn(old, new, (folder / name).read_text())
        assert count == 1
        (folder / name).write_text(text)
    junit = tmp_path / "junit.xml"
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--thresholds={folder}", f"--junit-xml={junit}")
    assert done.code == 1, done.output
    found = cases(junit)
    (failure,) = found["batch-1k"].findall("failure")
    first, *rest = failure.attrib["message"].splitlines()
    figures = r"67\.2 % fewer records/s than its baseline \(29,481 records/s, at least [\d,]+\)"
    assert re.fullmatch(f"Failed: REGRESSED batch-1k sends {figures}", first), first
    assert rest[0] == "  scenario   1 KiB batches: one record each"
    assert properties(found["batch-1k"])["verdict"] == "REGRESSED"
    assert properties(found["batch-1k"])["records_per_s"] == "29481.2"
    (failure,) = found["cross-az-rate"].findall("failure")
    assert re.match(
        r"Failed: REGRESSED cross-az-rate: batch-1k / cross-az in records_per_s is 3\.94, must be 100 \.\. 200\n",
        failure.attrib["message"],
    )
    assert properties(found["cross-az-rate"])["ratio"].startswith("3.9")
    assert properties(found["batch-16k"])["verdict"] == "PASS"
    assert found["batch-16k"].find("failure") is None
    assert "did not record it" in found["paced-500"].findall("skipped")[0].attrib["message"]


def test_what_is_not_valid_is_no_figure() -> None:
    whole = measurement([1000.0, 1010.0])
    assert valid_figures(whole)["records_per_s"] == 1005
    spoilt = replace(whole, rounds=(whole.rounds[0], one_round(2, 1010.0, spoilt={"latency_ms": "sent late"})))
    assert "latency_ms.p99" not in valid_figures(spoilt)
    assert "records_per_s" in valid_figures(spoilt)
    partly = replace(whole.rounds[1], metrics={"records_per_s": 1010.0})
    assert set(valid_figures(replace(whole, rounds=(whole.rounds[0], partly)))) == {"records_per_s"}


def test_a_lost_record_does_not_hide_behind_the_median() -> None:
    lost = [
        replace(one_round(i, 1000.0), metrics={"lost_records": count}) for i, count in enumerate((0.0, 12.0, 0.0), 1)
    ]
    assert valid_figures(replace(measurement([1000.0]), rounds=tuple(lost))) == {"lost_records": 12}


def test_records_behind_or_unsent_are_levels_and_all_others_counts() -> None:
    """A lag of 1,000 records in each of seven rounds was 7,000 beside a limit of 1,300 that it kept."""
    levels = ("owed_records", "unsent_records", "lag_records.max", "unread_records")
    every = {name: 1000.0 for name, one in METRICS.items() if one.unit == "records"}
    rounds = tuple(replace(one_round(i, 1000.0), metrics=every) for i in range(1, 8))
    found = valid_figures(replace(measurement([1000.0]), rounds=rounds))
    assert found == {name: 1000.0 if name in levels else 7000.0 for name in every}


@pytest.mark.parametrize(
    "rounds", [(), (one_round(1, 1000.0),), (one_round(1, 1000.0), one_round(2, 1000.0, invalid=("a broker died",)))]
)
def test_an_invalid_measurement_has_no_figures(rounds: tuple[object, ...]) -> None:
    assert valid_figures(replace(measurement([1000.0]), rounds=rounds)) == {}  # type: ignore[arg-type]


def test_a_comparison_has_its_effect_as_shares() -> None:
    found = dict(comparison_properties(judge_comparison(comparison(0.9))))
    assert (found["verdict"], found["metric"]) == ("SLOWER", "records_per_s")
    assert float(str(found["effect"])) == pytest.approx(-0.1, abs=0.02)
    low, high = str(found["interval"]).split(" .. ")
    assert float(low) < float(str(found["effect"])) < float(high)
