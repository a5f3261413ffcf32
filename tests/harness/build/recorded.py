"""The recorded run of tests/harness/data, and runs made from it."""

import json
from pathlib import Path
from typing import Any

from perfgate.model.summary import centre

RECORDED = Path(__file__).parents[1] / "data" / "run.json"
SCHEMA_FILE = Path(__file__).parents[3] / "docs" / "run.schema.json"
SCHEMA = json.loads(SCHEMA_FILE.read_text())


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {entry["name"]: entry["verdict"] for entry in document["scenarios"] + document["relations"]}


def of_pulsar(document: dict[str, Any], run_id: str = "") -> dict[str, Any]:
    """Return the recorded run as if its brokers had been Pulsar's, quorums 3/3/2 or 3/1/1, and nothing synced."""
    run: dict[str, Any] = json.loads(json.dumps(document))
    run["run_id"], run["driver"] = run_id or run["run_id"], "libpulsar"
    run["target"] = {key: value for key, value in run["target"].items() if key != "kafka_version"}
    run["target"] |= {"system": "pulsar", "pulsar_version": "4.0.8"}
    for entry in run["scenarios"]:
        entry["declared"]["cluster"] |= {"system": "pulsar", "version": "4.0.8", "bookies": 3}
        entry["declared"]["cluster"]["bookie_config"] = {"journalSyncData": "false"}
        entry["declared"]["topic"]["config"] = {"ensemble": "3"}
    return run


def night(document: dict[str, Any], number: int, factor: float) -> dict[str, Any]:
    """Return the recorded run as if of another night, with batch-1k's rate times `factor`."""
    run: dict[str, Any] = json.loads(json.dumps(document))
    run["run_id"] = f"202601{number:02d}T000000Z-0000"
    run["started"] = f"2026-01-{number:02d}T00:00:00+00:00"
    run["replay_of"] = None
    entry = next(e for e in run["scenarios"] if e["name"] == "batch-1k")
    rate = entry["metrics"]["records_per_s"]
    rate["rounds"] = [factor * value for value in rate["rounds"]]
    rate["value"] = centre(rate["rounds"])
    return run
