"""A profile needed the exact Kafka line: the change most worth gating made everything MISSING, exit 0."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from perfgate.judge.thresholds import all_but_one, load_profiles, match_profile
from perfgate.model.errors import ConfigurationError
from tests.harness.forked import gate
from tests.harness.run_gate import RECORDED_THRESHOLDS, ROOT, UNDECIDED, Finished

RECORDED = ROOT / "tests" / "harness" / "data" / "run.json"
FACTS = {"target": "embedded", "cores": "2", "tier": "smoke", "driver": "librdkafka", "kafka": "4.3"}


def replay(folder: Path, *arguments: object, slower: float = 1.0, kafka: str = "4.3.1", **changes: str) -> Finished:
    """Replay the recorded run as if its brokers had been another Kafka, and so many times slower."""
    run = json.loads(RECORDED.read_text())
    run["target"]["kafka_version"] = kafka
    run["environment"].update(changes)
    for entry in run["scenarios"]:
        for measured in entry["rounds"]:
            measured["metrics"]["records_per_s"] /= slower
            measured["metrics"]["broker_cpu_us_per_record"] *= slower
    path = folder / "run.json"
    path.write_text(json.dumps(run))
    return gate(folder / "results", f"--replay={path}", *arguments)


@pytest.mark.parametrize(("slower", "code"), [(1.0, 0), (10.0, 1)])
def test_another_kafka_line_is_held_against_the_stored_figures(tmp_path: Path, slower: float, code: int) -> None:
    done = replay(tmp_path, slower=slower, kafka="5.0.0")
    assert done.code == code, done.output
    assert "profile embedded-2c (recorded with Kafka 4.3, this is 5.0)" in done.output
    assert "judged 5 of 5 scenarios" in done.output


def test_on_another_machine_the_profile_is_named_with_the_fact_that_differs(tmp_path: Path) -> None:
    done = replay(tmp_path, slower=10.0, cpu_model="Another One")
    assert "embedded-2c fits but for cpu_model: AMD EPYC there, Another One here" in done.output
    assert "judged 0 of 5 scenarios (5 MISSING) and 8 of 8 relations" in done.output


def test_nothing_judged_at_all_is_not_green(tmp_path: Path) -> None:
    done = replay(tmp_path, "-k", "batch-1k and not rate and not cpu", cpu_model="Another One")
    assert done.code == UNDECIDED, done.output
    assert "NOTHING JUDGED: judged 0 of 1 scenarios (1 MISSING) and 0 of 0 relations" in done.output
    assert done.run["exit_code"] == UNDECIDED


def profiles(folder: Path, **facts: Mapping[str, str]) -> Path:
    """Write profiles of these names with these facts."""
    for name, stated in facts.items():
        lines = "\n".join(f'{key} = "{value}"' for key, value in stated.items())
        (folder / f"{name}.toml").write_text(f"[profile]\n{lines}\n")
    return folder


OLD, NEW = {"target": "embedded", "kafka": "3.9"}, {"target": "embedded", "kafka": "4.3"}


@pytest.mark.parametrize(
    ("stored", "picked"),
    [
        ({"old": OLD}, "old"),
        ({"old": OLD, "new": NEW}, "new"),
        ({"old": OLD, "other": {**NEW, "cores": "4"}}, "old"),
        ({"nightly": {**NEW, "tier": "nightly"}}, None),
        ({"nightly": {**NEW, "tier": "nightly"}, "smoke": {**OLD, "tier": "smoke"}}, "smoke"),
        ({"java": {**NEW, "driver": "java"}}, None),
    ],
)
def test_which_profile_is_picked(tmp_path: Path, stored: dict[str, dict[str, str]], picked: str | None) -> None:
    found = match_profile(load_profiles(profiles(tmp_path, **stored)), FACTS)
    assert (found.name if found else None) == picked


def test_two_of_other_lines_are_an_error_not_a_guess(tmp_path: Path) -> None:
    folder = profiles(tmp_path, old=OLD, older={**OLD, "kafka": "2.8"})
    with pytest.raises(ConfigurationError, match="several profiles match this target and machine: old, older"):
        match_profile(load_profiles(folder), FACTS)


def test_a_profile_of_another_tier_is_named_as_near(tmp_path: Path) -> None:
    found = all_but_one(load_profiles(profiles(tmp_path, nightly={**OLD, "tier": "nightly"})), FACTS)
    assert [(profile.name, key) for profile, key in found] == [("nightly", "tier")]


def test_the_recorded_thresholds_state_a_kafka_line() -> None:
    """What this file is about would else not be tried."""
    (stored,) = load_profiles(RECORDED_THRESHOLDS).values()
    assert stored.facts["kafka"] == "4.3"
