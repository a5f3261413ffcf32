"""A run that is killed between two blocks is continued, and holds what an uninterrupted one holds."""

import json
from pathlib import Path

import psutil

from tests.harness.live.started_gates import ORPHAN_BOUND_S, SHORT, children, running_gate, wait_for
from tests.harness.run_gate import BEGUN_BOUND_S, gate

TWO_CLUSTERS = ("-k", "batch-1k or network-threads-8", "-p", "tests.harness.no_more_rounds", *SHORT)


def test_a_killed_run_is_continued_and_holds_every_scenario(tmp_path: Path) -> None:
    with running_gate(tmp_path, *TWO_CLUSTERS) as (process, run):
        wait_for(lambda: list(tmp_path.glob("2*/run.json")), BEGUN_BOUND_S, "the first block")
        brokers = children(run, "kafka")
        process.kill()
        process.wait()
    wait_for(lambda: not any(map(alive, brokers)), ORPHAN_BOUND_S, "the brokers' end")
    (path,) = tmp_path.glob("2*/run.json")
    killed = json.loads(path.read_text())
    measured = [entry["name"] for entry in killed["scenarios"]]
    assert measured == ["batch-1k"]
    assert killed["exit_code"] == 2

    done = gate(tmp_path, *TWO_CLUSTERS, f"--resume={killed['run_id']}")
    assert f"1 of them not measured by run {killed['run_id']}" in done.output, done.output
    assert f"continues run {killed['run_id']}" in done.output
    (path,) = (one for one in tmp_path.glob("2*/run.json") if one.parent.name != killed["run_id"])
    resumed = json.loads(path.read_text())
    assert sorted(entry["name"] for entry in resumed["scenarios"]) == ["batch-1k", "network-threads-8"]
    assert resumed["resumed_from"] == killed["run_id"]
    entries = {entry["name"]: entry for entry in resumed["scenarios"]}
    assert entries["batch-1k"]["rounds"] == killed["scenarios"][0]["rounds"], "not measured again"
    assert entries["network-threads-8"]["rounds"], done.output
    assert all(entry["verdict"] for entry in resumed["scenarios"])
    assert [sorted(cluster["scenarios"]) for cluster in resumed["target"]["clusters"]] == [
        ["batch-1k"],
        ["network-threads-8"],
    ]


def alive(process: psutil.Process) -> bool:
    """Return whether the process is still there, and no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
