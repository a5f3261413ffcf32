"""perfgate.load_run: typed values and a table of rounds, of every schema that is read, whatever else the file holds."""

import gzip
import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import perfgate
from perfgate.model import Effect, Verdict
from perfgate.model.errors import ConfigurationError
from tests.harness.build.recorded import RECORDED
from tests.harness.corpus.freeze import RECORDED as CORPUS


def test_a_run_of_an_older_schema_is_read(document: dict[str, Any]) -> None:
    run = perfgate.load_run(RECORDED)
    assert (run.run_id, run.tier.name, run.exit_code) == (document["run_id"], "smoke", 0)
    assert run.scenarios[0].verdict is Verdict.PASS
    assert run.scenarios[0].metrics["records_per_s"].unit == "records/s"
    assert run.relations[0].ratio == pytest.approx(1.6, abs=0.01)


def test_the_table_has_a_flat_line_of_each_round(document: dict[str, Any]) -> None:
    table = perfgate.load_run(RECORDED).rounds()
    measured = [(entry["name"], one) for entry in document["scenarios"] for one in entry["rounds"]]
    assert [(line["scenario"], line["round"]) for line in table] == [(name, one["index"]) for name, one in measured]
    for line, (_, one) in zip(table, measured, strict=True):
        assert line.items() >= one["metrics"].items()
        assert not [value for value in line.values() if isinstance(value, list | tuple | dict)]


def test_keys_of_a_later_version_are_skipped(tmp_path: Path, document: dict[str, Any]) -> None:
    plain = perfgate.load_run(RECORDED)
    later = deepcopy(document)
    later["weather"] = "fine"
    later["scenarios"][0]["mood"] = {"is": "good"}
    later["scenarios"][0]["rounds"][0]["colour"] = "blue"
    (tmp_path / "run.json").write_text(json.dumps(later))
    assert perfgate.load_run(tmp_path) == plain, "the folder of a run does as well"


def test_a_comparison_is_read(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(gzip.decompress((CORPUS / "compared-slower.json.gz").read_bytes()))
    one = perfgate.load_run(tmp_path).comparisons[0]
    assert one.verdict is Effect.SLOWER
    assert one.estimate is not None
    assert one.estimate < 0


def test_what_is_no_run_is_one_sentence(tmp_path: Path, document: dict[str, Any]) -> None:
    damaged = deepcopy(document)
    damaged["scenarios"][0]["metrics"]["records_per_s"]["unit"] = 7
    (tmp_path / "run.json").write_text(json.dumps(damaged))
    with pytest.raises(
        ConfigurationError, match=r"run\.json: scenarios\.0\.metrics\.records_per_s\.unit: Input should"
    ):
        perfgate.load_run(str(tmp_path))
    with pytest.raises(ConfigurationError, match="no such file; a run is recorded in results/"):
        perfgate.load_run(tmp_path / "missing.json")


def test_the_name_alone_imports_nothing_of_the_engine() -> None:
    code = "import sys, perfgate; perfgate.load_run; print([m for m in sys.modules if m.startswith('perfgate.')])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
