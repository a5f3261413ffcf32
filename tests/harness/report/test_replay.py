"""Judge and reports on a recorded run, without Kafka: green as recorded, and red in all places alike when it should be.

data/run.json is a smoke run of the five white-paper rows on the embedded target (broker logs left out).
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perfgate.model.command import command_line
from perfgate.report.entries import SCHEMA
from perfgate.report.results import load_run
from tests.harness.build import flaw_entry
from tests.harness.build.recorded import RECORDED, verdicts
from tests.harness.forked import gate
from tests.harness.run_gate import HANG_BOUND_S, RECORDED_THRESHOLDS, ROOT, Finished


def test_a_replay_gives_the_same_verdicts_without_a_cluster(document: dict[str, Any], replayed: Finished) -> None:
    assert replayed.code == 0, replayed.output
    assert verdicts(replayed.run) == verdicts(document)
    assert replayed.run["replay_of"] == document["run_id"]
    recorded = {entry["name"]: entry["metrics"] for entry in document["scenarios"]}
    assert {entry["name"]: entry["metrics"] for entry in replayed.run["scenarios"]} == recorded
    assert not (replayed.results / "latest").exists(), "a replay is not the newest run"


def test_a_replay_says_that_nothing_was_measured_and_whose_figures_these_are(replayed: Finished) -> None:
    """In the plan, above the tables and beside the last line: figures of a month ago were taken for today's."""
    whose = "figures of run 20261121T150640Z-ac44, 2026-11-21 15:06 UTC, on 2 x AMD EPYC, target embedded"
    lines = replayed.output.splitlines()
    assert f"nothing is measured: 5 scenarios judged again, {whose}" in lines
    head = next(at for at, line in enumerate(lines) if "Kafka performance gate, tier" in line)
    last = next(at for at, line in enumerate(lines) if line.startswith("GREEN: "))
    assert lines[head + 1] == lines[last - 1] == f"nothing was measured: {whose}"
    summary = next(replayed.results.glob("2*/summary.md")).read_text()
    assert "Nothing was measured: figures of run 20261121T150640Z-ac44." in summary


def test_a_replay_of_a_replay_names_the_run_that_measured(tmp_path: Path, document: dict[str, Any]) -> None:
    again = {**document, "run_id": "20261122T101010Z-0001", "started": "2026-11-22T10:10:10+00:00"}
    (tmp_path / "run.json").write_text(json.dumps({**again, "replay_of": document["run_id"]}))
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}")
    by = "(by run 20261122T101010Z-0001, 2026-11-22 10:10 UTC, which judged it again)"
    assert f"nothing was measured: figures of run {document['run_id']} {by}, on 2 x AMD EPYC" in done.output


def test_a_replay_of_a_modified_run_stays_modified(tmp_path: Path, document: dict[str, Any]) -> None:
    changed = {**document, "modified": ["producer.linger.ms=50"], "tier": {**document["tier"], "name": "nightly"}}
    (tmp_path / "run.json").write_text(json.dumps(changed))
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}")
    assert done.run["modified"] == ["producer.linger.ms=50"]
    assert done.run["tier"]["name"] == "nightly"
    assert "MODIFIED run: producer.linger.ms=50" in done.output


COUNT_DECODES = """
import sys, pytest
from perfgate.fixtures.run import pytest_arguments
from hdrh.histogram import HdrHistogram
texts, decode = [], HdrHistogram.decode
HdrHistogram.decode = staticmethod(lambda text, *rest: (texts.append(text), decode(text, *rest))[1])
code = pytest.main(["-p", "tests.harness.no_pictures", *pytest_arguments(sys.argv[1:])])
print(f"decoded {len(texts)}, of them different {len(set(texts))}")
sys.exit(int(code))
"""


def test_a_replay_decodes_each_histogram_once(tmp_path: Path, document: dict[str, Any]) -> None:
    """A replay of 100 rows takes seconds because of that; its time itself says more about the machine."""
    options = [f"--results={tmp_path}", f"--replay={RECORDED}", f"--thresholds={RECORDED_THRESHOLDS}"]
    command = [sys.executable, "-c", COUNT_DECODES, *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_BOUND_S)
    assert done.returncode == 0, done.stdout + done.stderr
    texts = {r["latency_histogram"] for entry in document["scenarios"] for r in entry["rounds"]}
    assert f"decoded {len(texts)}, of them different {len(texts)}" in done.stdout


def test_a_run_of_the_schema_before_is_judged_as_it_was(tmp_path: Path, document: dict[str, Any]) -> None:
    """Schema 3 knew of no withdrawn records, no rounds of warm-up, no ledger, and had another canary."""
    old = json.loads(json.dumps(document))
    old["schema"] = 3
    del old["time"], old["target"]["shares_cores"]
    for entry in old["scenarios"]:
        del entry["warm_up_rounds"], entry["warming"], entry["accounting"]["withdrawn"]
        entry["canary"] = [{"cpu_mib_per_s": 3000.0, "loopback_per_s": 2e4, "pressure": 0.0, "steal": 0.0}] * 4
        for measured in entry["rounds"]:
            del measured["accounting"]["withdrawn"]
    (tmp_path / "run.json").write_text(json.dumps(old))
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}")
    assert done.code == 0, done.output
    assert verdicts(done.run) == verdicts(document)


def test_a_run_of_schema_6_is_read_as_it_declares(tmp_path: Path) -> None:
    old = json.loads(json.dumps({**load_run(RECORDED), "schema": 6}))
    old["scenarios"][0]["declared"]["topic"]["ack_quorum"] = 2
    (tmp_path / "run.json").write_text(json.dumps(old))
    assert load_run(tmp_path / "run.json") == {**old, "schema": SCHEMA}


def test_the_terminal_shows_every_row_and_relation_and_one_line_at_the_end(replayed: Finished) -> None:
    for name in verdicts(replayed.run):
        assert re.search(rf"^{name} .* PASS$", replayed.output, re.MULTILINE), name
    assert (
        "GREEN: judged 5 of 5 scenarios (5 PASS) and 8 of 8 relations (8 PASS); 2 not run; exit code 0"
        in replayed.output
    )


def test_allure_has_labels_parameters_numbers_thresholds_and_logs(replayed: Finished) -> None:
    (run_dir,) = replayed.results.glob("2*")
    result = replayed.allure["batch-1k"]
    labels = {label["name"]: label["value"] for label in result["labels"]}
    assert re.fullmatch(r"batch-1k: PASS, [\d,]+ records/s, p99 .* ms, .* broker cores, .* us/record", result["name"])
    assert labels["epic"] == "Kafka performance gate"
    assert labels["feature"] == "batch-size"
    assert labels["story"].startswith("batch-1k")
    assert {"name": "batch.size", "value": "1024", "excluded": True} in result["parameters"]
    attached = {attachment["name"] for attachment in result["attachments"]}
    assert {"measurement", "thresholds used: embedded-2c"} <= attached
    assert "broker log tail" not in attached, "it is green"
    assert "records_per_s" in result["descriptionHtml"]
    environment = (run_dir / "allure-results" / "environment.properties").read_text()
    assert "kafka_version=4.3.1" in environment
    categories = json.loads((run_dir / "allure-results" / "categories.json").read_text())
    assert "Regressed" in {category["name"] for category in categories}
    assert len(replayed.allure) == 15, "the scenarios that the recorded run has not are skipped"


def test_pytest_benchmark_carries_the_rounds(document: dict[str, Any], replayed: Finished) -> None:
    written = json.loads((replayed.results / "benchmark.json").read_text())["benchmarks"]
    by_name = {benchmark["param"]: benchmark for benchmark in written}
    for entry in document["scenarios"]:
        rates = entry["metrics"]["records_per_s"]["rounds"]
        stats = by_name[entry["name"]]["stats"]
        assert stats["rounds"] == len(rates)
        assert stats["data"] == pytest.approx([1 / rate for rate in rates])


def test_pytest_benchmark_compares_and_draws(tmp_path: Path) -> None:
    storage = f"--benchmark-storage={tmp_path / 'storage'}"
    gate(tmp_path / "first", f"--replay={RECORDED}", storage, "--benchmark-save=before")
    drawn = f"--benchmark-histogram={tmp_path / 'drawn'}"
    done = gate(tmp_path / "second", f"--replay={RECORDED}", storage, "--benchmark-compare", drawn)
    assert done.code == 0, done.output
    assert "0001_before" in done.output
    assert list(tmp_path.glob("drawn*.svg"))


def test_a_raised_threshold_is_red_in_pytest_allure_and_run_json(
    tmp_path: Path, thresholds: Callable[..., Path]
) -> None:
    folder = thresholds(
        "embedded-2c.toml", r"(\[batch-1k\][^\[]*?records_per_s = \{ ?baseline = )[\d.]+", r"\g<1>90000"
    )
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--thresholds={folder}")
    assert done.code == 1
    assert done.run["exit_code"] == 1
    assert verdicts(done.run)["batch-1k"] == "REGRESSED"
    result = done.allure["batch-1k"]
    assert result["status"] == "failed"
    message = result["statusDetails"]["message"]
    for part in (
        "REGRESSED batch-1k",
        "expected   90,000 records/s, tolerance",
        "from the baseline",
        "profile    embedded-2c",
    ):
        assert part in message
        assert part in done.output
    assert re.search(r"^batch-1k .* REGRESSED$", done.output, re.MULTILINE)
    assert "RED: judged 5 of 5 scenarios (4 PASS, 1 REGRESSED)" in done.output
    others = {name: verdict for name, verdict in verdicts(done.run).items() if name != "batch-1k"}
    assert set(others.values()) == {"PASS"}


def test_a_raised_relation_is_red(tmp_path: Path, thresholds: Callable[..., Path]) -> None:
    folder = thresholds(
        "relations.toml",
        r"(\[cross-az.rate.shared_cores\][^\[]*?at_least = )[\d.]+\nat_most = [\d.]+",
        r"\g<1>100\nat_most = 200",
    )
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--thresholds={folder}")
    assert done.code == 1
    assert verdicts(done.run)["cross-az-rate"] == "REGRESSED"
    assert done.allure["cross-az-rate"]["status"] == "failed"


def test_relations_only_holds_no_stored_threshold_and_fine_margins_by_their_direction_alone(tmp_path: Path) -> None:
    done = gate(tmp_path / "results", f"--replay={RECORDED}", "--relations-only")
    assert done.code == 0
    assert {entry["verdict"] for entry in done.run["scenarios"]} == {"MISSING"}
    found = {entry["name"]: entry["at_least"] for entry in done.run["relations"]}
    assert (found["acks-rate"], found["batch-size-rate"]) == (0.9, 2.0)
    assert done.run["modified"] == ["--relations-only"]
    assert "MODIFIED run: --relations-only" in done.output
    both = gate(tmp_path / "both", f"--replay={RECORDED}", "--relations-only", "--profile=embedded-2c")
    assert "exclude one another" in both.output


def test_a_first_run_ends_with_what_it_found_and_the_one_command_that_records_it(
    tmp_path: Path, thresholds: Callable[..., Path]
) -> None:
    folder = thresholds("embedded-2c.toml", 'cpu_model = "AMD EPYC"', 'cpu_model = "Another One"')
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--thresholds={folder}")
    assert done.code == 0, done.output
    _, text = done.output.split("No stored thresholds apply to this machine")
    assert "all 8 hold" in text
    assert "all 5 were measured with a valid load" in text
    assert "embedded-2c fits but for cpu_model: Another One there, AMD EPYC here" in text
    again = command_line("baseline", f"--results={tmp_path / 'results'}", f"--thresholds={folder}", "--window=2")
    assert f"{again} on that machine" in text, "it is a replay"
    line = (
        "GREEN WITHOUT THRESHOLDS: judged 0 of 5 scenarios (5 MISSING) and 8 of 8 relations (8 PASS); "
        "2 not run; exit code 0"
    )
    *_, counts, to_do, _of_pytest = [shown for shown in text.splitlines() if shown]
    assert counts == line
    assert to_do.startswith(f"To do on that machine: acks-all is MISSING: {again}"), to_do


def test_a_first_run_says_what_did_not_hold(
    tmp_path: Path, document: dict[str, Any], thresholds: Callable[..., Path]
) -> None:
    folder = thresholds("embedded-2c.toml", "cores = 2", "cores = 64")
    run = json.loads(json.dumps(document))
    entry = next(e for e in run["scenarios"] if e["name"] == "cross-az")
    entry["rounds"][0]["flaws"] = [flaw_entry("broker 2 died")]
    (tmp_path / "run.json").write_text(json.dumps(run))
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}", f"--thresholds={folder}")
    assert done.code == 6, done.output
    assert "4 of 5 were measured with a valid load; the others: cross-az INVALID" in done.output
    assert "6 of 8 hold; the others: cross-az-rate INVALID, cross-az-cpu INVALID" in done.output


def test_a_threshold_that_a_named_profile_lacks_is_red(tmp_path: Path, thresholds: Callable[..., Path]) -> None:
    folder = thresholds("embedded-2c.toml", r"(?m)(\[cross-az\][^\[]*?)^records_per_s.*\n", r"\g<1>")
    named = gate(tmp_path / "named", f"--replay={RECORDED}", f"--thresholds={folder}", "--profile", "embedded-2c")
    assert named.code == 1
    assert verdicts(named.run)["cross-az"] == "MISSING"
    assert named.allure["cross-az"]["status"] == "failed"
    found = gate(tmp_path / "found", f"--replay={RECORDED}", f"--thresholds={folder}")
    assert found.code == 0
    assert found.allure["cross-az"]["status"] == "skipped"
    assert "1 MISSING" in found.output


def test_only_invalid_has_an_exit_code_of_its_own(tmp_path: Path, document: dict[str, Any]) -> None:
    broken = json.loads(json.dumps(document))
    entry = next(e for e in broken["scenarios"] if e["name"] == "batch-16k")
    entry["rounds"][1]["flaws"] = [flaw_entry("a broker died")]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(broken))
    done = gate(tmp_path / "results", f"--replay={path}", "--family", "batch-size")
    assert done.code == 6
    assert done.run["exit_code"] == 6
    assert verdicts(done.run) == {
        "batch-1k": "PASS",
        "batch-16k": "INVALID",
        "batch-size-rate": "INVALID",
        "batch-size-cpu": "INVALID",
    }
    assert "UNDECIDED" in done.output


def test_a_scenario_without_a_round_is_invalid_on_a_disturbed_machine_too(
    tmp_path: Path, document: dict[str, Any]
) -> None:
    disturbed = json.loads(json.dumps(document))
    for entry in disturbed["scenarios"]:
        quiet = {"deflate_mib_per_s": 3000.0, "loopback_per_s": 20_000.0, "pressure": 0.0, "steal": 0.0}
        entry["rounds"], entry["canary"] = [], [quiet, quiet, quiet, {**quiet, "deflate_mib_per_s": 900.0}]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(disturbed))
    done = gate(tmp_path / "results", f"--replay={path}", "-k", "batch-16k and not relation")
    assert done.code == 6, done.output
    assert verdicts(done.run)["batch-16k"] == "INVALID"
    assert "no round was measured" in done.output


def test_a_red_beside_an_invalid_is_still_red(tmp_path: Path, document: dict[str, Any], thresholds: Any) -> None:
    broken = json.loads(json.dumps(document))
    next(e for e in broken["scenarios"] if e["name"] == "batch-16k")["rounds"][1]["flaws"] = [
        flaw_entry("a broker died")
    ]
    (tmp_path / "run.json").write_text(json.dumps(broken))
    folder = thresholds(
        "embedded-2c.toml", r"(\[batch-1k\][^\[]*?records_per_s = \{ ?baseline = )[\d.]+", r"\g<1>90000"
    )
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}", f"--thresholds={folder}")
    assert done.code == 1


def test_a_relation_whose_row_is_left_out_is_not_run_and_says_so(tmp_path: Path) -> None:
    done = gate(tmp_path, "-k", "cross-az", f"--replay={RECORDED}")
    assert done.code == 0
    reasons = {entry["name"]: entry["reason"] for entry in done.run["not_run"]}
    assert reasons["cross-az-rate"] == reasons["cross-az-cpu"] == "needs batch-1k: left out of this run"
    assert "did not record it" in reasons["cross-az-2ms"]
    assert "not run: cross-az-rate, cross-az-cpu: needs batch-1k: left out of this run" in done.output


def test_rows_after_a_stop_are_not_run_and_say_so(tmp_path: Path, thresholds: Callable[..., Path]) -> None:
    folder = thresholds(
        "embedded-2c.toml", r"(\[acks-all\][^\[]*?records_per_s = \{ ?baseline = )[\d.]+", r"\g<1>90000"
    )
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--thresholds={folder}", "--exitfirst")
    assert done.code == 1
    reasons = {entry["name"]: entry["reason"] for entry in done.run["not_run"]}
    assert reasons["batch-1k"] == "the run stopped before it"
    assert len(reasons) == 14


def test_two_profiles_that_match_are_refused_before_anything_is_judged(tmp_path: Path) -> None:
    folder = tmp_path / "thresholds"
    shutil.copytree(RECORDED_THRESHOLDS, folder)
    shutil.copy(folder / "embedded-2c.toml", folder / "again.toml")
    done = gate(tmp_path / "results", f"--replay={RECORDED}", f"--thresholds={folder}")
    assert done.code == 2
    assert "several profiles match this target and machine: again, embedded-2c" in done.output


def test_a_row_that_was_not_recorded_is_not_run(tmp_path: Path, document: dict[str, Any]) -> None:
    partial = {**document, "scenarios": [e for e in document["scenarios"] if e["name"] != "acks-all"]}
    (tmp_path / "run.json").write_text(json.dumps(partial))
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}", "--family", "acks")
    assert "acks-all" in {entry["name"] for entry in done.run["not_run"]}
    assert re.search("^not run: (acks-0, )?acks-all(, acks-0)?: run .* did not record it$", done.output, re.MULTILINE)


def test_a_run_that_judged_nothing_is_not_green(tmp_path: Path) -> None:
    done = gate(tmp_path, "tests/probes", f"--replay={RECORDED}")
    assert done.code == 6, done.output
    assert "GREEN" not in done.output
    assert f"{len(done.run['not_run'])} not run" in done.output


def test_a_run_that_a_plugin_skipped_whole_is_not_green(tmp_path: Path) -> None:
    skips = "import pytest\n\n\ndef pytest_runtest_setup(item):\n    pytest.skip('not today')\n"
    given = (f"--replay={RECORDED}", "-q", "-p", "tests.harness.foreign")
    done = gate(tmp_path, *given, environment={"FOREIGN": skips})
    assert done.code == 6, done.output
    assert "\nUNDECIDED: nothing was judged, because every test was skipped before it began\n" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_family_brings_the_rows_it_compares_with(tmp_path: Path) -> None:
    done = gate(tmp_path, f"--replay={RECORDED}", "--family", "cross-az")
    cross_az = {"batch-1k", "cross-az", "cross-az-rate", "cross-az-cpu"}
    assert set(verdicts(done.run)) == cross_az
    both = gate(tmp_path / "both", f"--replay={RECORDED}", "--family=cross-az", "--family=acks")
    assert set(verdicts(both.run)) == {*cross_az, "replicas-3", "acks-all", "acks-rate", "acks-cpu"}, "and not the last"


def test_list_scenarios_runs_nothing(tmp_path: Path) -> None:
    done = gate(tmp_path, "--list-scenarios")
    assert done.code == 0
    for name in ("batch-1k", "batch-16k", "cross-az", "replicas-3", "acks-all", "acks-cpu"):
        assert re.search(rf"^  {name} ", done.output, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_a_replay_says_that_nothing_is_measured(tmp_path: Path) -> None:
    """It gave the bytes and the hours of a run that measures."""
    done = gate(tmp_path, f"--replay={RECORDED}", "--dry-run")
    assert done.code == 0
    assert "nothing is measured: 5 scenarios judged again, figures of run 20261121T150640Z-ac44" in done.output
    assert "at the most" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_load_host_that_is_always_the_worst_stands_in_every_report(document: dict[str, Any], tmp_path: Path) -> None:
    run = json.loads(json.dumps(document))
    entry = run["scenarios"][0]
    host = {"processes": 1, "cpu_cores": 0.1, "latency_histogram": "", "started_late_ms": 1.0}
    clock = {"clock_ahead_ms": 0.0, "clock_bound_ms": 0.1, "clock_off_by_ms": 0.1}
    for r in entry["rounds"]:
        r["hosts"] = [
            {"name": f"load-{n}", "done_in_window": 600 if n == 7 else 1000, **host, **clock} for n in range(1, 9)
        ]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    found = gate(tmp_path / "results", f"--replay={path}", "-k", entry["name"])
    words = f"load host load-7: its records a process are the fewest in all {len(entry['rounds'])} rounds, 1.67 x"
    assert f"note: {entry['name']}: {words}" in " ".join(found.output.split())
    (folder,) = found.results.glob("2*")
    assert words in (folder / "summary.md").read_text()
    assert words in found.allure[entry["name"]]["descriptionHtml"]
