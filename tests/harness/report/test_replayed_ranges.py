"""Ranges of scenarios, judged on a recorded run."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.build.recorded import RECORDED
from tests.harness.forked import gate


@pytest.fixture
def with_two_replicas(tmp_path: Path, document: dict[str, Any]) -> Callable[[float], Path]:
    """Return what writes the recorded run with replicas-2 added: batch-1k's rounds at this share of their rate."""

    def write(share: float) -> Path:
        run = json.loads(json.dumps(document))
        added = json.loads(json.dumps(next(e for e in run["scenarios"] if e["name"] == "batch-1k")))
        added.update({"name": "replicas-2", "family": "replicas", "families": ["replicas"]})
        for one in added["rounds"]:
            one["metrics"]["records_per_s"] *= share
        run["scenarios"].append(added)
        path = tmp_path / "run.json"
        path.write_text(json.dumps(run))
        return path

    return write


def test_a_range_is_held_on_what_was_measured_and_is_in_all_reports(
    tmp_path: Path, with_two_replicas: Callable[[float], Path]
) -> None:
    done = gate(tmp_path / "results", f"--replay={with_two_replicas(0.7)}", "--family=replicas")
    (entry,) = done.run["ranges"]
    assert (entry["name"], entry["verdict"]) == ("replicas-range", "PASS"), done.output
    assert entry["leg"] == ["batch-1k", "replicas-2", "replicas-3"]
    steps = {(step["of"], step["over"]): step for step in entry["steps"]}
    assert steps["batch-1k", "replicas-2"]["ratio"] == pytest.approx(1 / 0.7)
    assert steps["batch-1k", "replicas-3"]["at_least"] == 1.3
    assert re.search(r"^replicas-range .* PASS$", done.output, re.MULTILINE)
    shown = done.allure["replicas-range"]
    assert "falls, in all 1.3 .. 10" in shown["name"]
    assert "replicas-2 / replicas-3" in shown["descriptionHtml"]


def test_a_range_whose_middle_collapsed_is_red_and_names_it(
    tmp_path: Path, with_two_replicas: Callable[[float], Path]
) -> None:
    done = gate(tmp_path / "results", f"--replay={with_two_replicas(0.05)}", "--family=replicas")
    assert done.code == 1
    (entry,) = done.run["ranges"]
    assert (entry["verdict"], [s["verdict"] for s in entry["steps"]]) == ("REGRESSED", ["REGRESSED"] * 2 + ["PASS"])
    message = done.allure["replicas-range"]["statusDetails"]["message"]
    assert "REGRESSED replicas-range" in message
    assert "batch-1k / replicas-2" in message


def test_a_range_of_too_few_scenarios_is_not_run_and_says_so(tmp_path: Path, document: dict[str, Any]) -> None:
    done = gate(tmp_path, f"--replay={RECORDED}", "--family=replicas")
    reasons = {entry["name"]: entry["reason"] for entry in done.run["not_run"]}
    assert reasons["replicas-range"].startswith("2 of its 3 scenarios are measured here; a range needs three")
    assert f"(replicas-2: run {document['run_id']} did not record it)" in reasons["replicas-range"]
    assert done.run["ranges"] == []


def test_a_tier_takes_the_ranges_that_its_scenarios_show(tmp_path: Path) -> None:
    listed = {
        tier: gate(tmp_path, "--list-scenarios", f"--tier={tier}").output for tier in ("smoke", "nightly", "full")
    }
    ranges = {tier: set(re.findall(r"^  ([a-z-]+range) ", output, re.MULTILINE)) for tier, output in listed.items()}
    assert ranges["smoke"] == set()
    assert ranges["nightly"] == {
        "partitions-range",
        "record-size-rate-range",
        "record-size-bytes-range",
        "rate-limit-range",
    }
    assert ranges["full"] - ranges["nightly"] == {
        "replicas-range",
        "producer-threads-range",
        "producers-range",
        "consumer-threads-range",
        "consumers-range",
        "cross-az-range",
        "read-partitions-range",
    }
