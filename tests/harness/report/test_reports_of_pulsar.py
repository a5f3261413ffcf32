"""Reports of a run of Pulsar name it, and print quorums and durability where its figures are."""

import csv
import json
import re
from typing import Any

import pytest

from perfgate.model.command import command_line
from perfgate.report.entries import SCHEMA as VERSION
from perfgate.report.html import performance_config
from perfgate.report.terminal import COLUMNS, with_kept
from tests.harness.build.recorded import of_pulsar
from tests.harness.forked import gate
from tests.harness.run_gate import Finished

KEPT = "3/1/1, page cache"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, document: dict[str, Any]) -> Finished:
    folder = tmp_path_factory.mktemp("pulsar")
    run = of_pulsar(document)
    run["scenarios"] = [entry for entry in run["scenarios"] if entry["name"] != "acks-all"]  # of Kafka alone
    (folder / "run.json").write_text(json.dumps(run))
    return gate(folder / "results", f"--replay={folder / 'run.json'}")


def written(done: Finished, name: str) -> str:
    (path,) = done.results.glob(f"2*/{name}")
    return path.read_text()


def test_it_is_judged_as_pulsars_by_no_threshold_of_kafka(done: Finished, document: dict[str, Any]) -> None:
    assert done.code == 0, done.output
    assert done.run["schema"] == VERSION
    assert done.run["profile"] is None
    assert {entry["verdict"] for entry in done.run["scenarios"]} == {"MISSING"}
    names = {entry["name"] for entry in done.run["scenarios"]}
    assert {"batch-1k", "batch-16k"} <= names <= {entry["name"] for entry in document["scenarios"]}
    assert command_line("baseline", "--system", "pulsar") in done.output
    assert "min-insync" not in done.output


def test_the_terminal_has_a_column_of_what_is_kept(done: Finished) -> None:
    assert "Pulsar performance gate, tier smoke" in done.output
    assert re.search(rf"^batch-1k +{KEPT} .* MISSING$", done.output, re.MULTILINE), done.output


def test_the_summary_names_release_quorums_and_durability(done: Finished) -> None:
    text = written(done, "summary.md")
    assert "Pulsar 4.0.8" in text
    assert "Kafka" not in text
    assert re.search(rf"^\| batch-1k \|.*\| MISSING \| {KEPT} \|$", text, re.MULTILINE), text


def test_exports_have_them_as_columns_and_labels(done: Finished) -> None:
    rows = list(csv.DictReader(written(done, "metrics.csv").splitlines()))
    assert {(row["quorums"], row["durability"]) for row in rows} == {("3/1/1", "page cache"), ("3/3/2", "page cache")}
    text = written(done, "metrics.prom")
    (info,) = [line for line in text.splitlines() if line.startswith("kafka_perf_gate_run_info{")]
    assert 'system="pulsar"' in info
    assert 'version="4.0.8"' in info
    rates = [line for line in text.splitlines() if line.startswith("kafka_perf_gate_records_per_second{")]
    assert rates
    assert all('quorums="3/' in line and 'durability="page cache"' in line for line in rates)


def test_allure_has_tests_of_their_own(done: Finished, replayed: Finished) -> None:
    def pages(of: Finished) -> dict[str, dict[str, Any]]:
        read = [json.loads(path.read_text()) for path in of.results.glob("2*/allure-results/*-result.json")]
        return {str(page["name"]).partition(":")[0]: page for page in read}

    own, other = pages(done), pages(replayed)
    for name in ("batch-1k", "batch-size-rate", "the run as a whole"):
        assert own[name]["historyId"] != other[name]["historyId"], name
        for page, epic in ((own[name], "Pulsar performance gate"), (other[name], "Kafka performance gate")):
            assert [one["value"] for one in page["labels"] if one["name"] == "epic"] == [epic]
    assert own["batch-1k"]["name"].endswith(f"({KEPT})")
    ours, theirs = (performance_config(one.run)["metrics"].keys() for one in (done, replayed))
    assert not set(ours) & set(theirs), "the history of reports is one file"


def test_the_first_page_says_what_the_figures_are_of(done: Finished) -> None:
    front = written(done, "answers.html")
    assert "Pulsar 4.0.8; 3/1/1, page cache" in front
    assert f"<td>{KEPT}</td>" in front


def test_a_table_of_kafka_stays_as_it_is() -> None:
    rows = [("batch-1k", "1")]
    assert with_kept(COLUMNS, rows, {"batch-1k": ""}) == (COLUMNS, rows)
    columns, shown = with_kept(("scenario", "rate"), rows, {"batch-1k": KEPT})
    assert (columns, shown) == (("scenario", "quorums, durability", "rate"), [("batch-1k", KEPT, "1")])
