"""The machine between the rounds: where it was off one line says it in every report, else its figures stand in one."""

import json
from pathlib import Path
from typing import Any

from tests.harness.forked import gate
from tests.harness.run_gate import Finished

OF_SLOWED = "the machine was off beside 2 of 5 scenarios (batch-1k, cross-az); at its worst: the machine ran at 40 % of"


def replayed(folder: Path, document: dict[str, Any], slowed: dict[str, float]) -> Finished:
    """Return the run judged again, with a machine at this share of its speed after the rounds of these scenarios."""
    quiet = {"deflate_mib_per_s": 45.0, "loopback_per_s": 21_000.0, "pressure": 0.0, "steal": 0.0}
    for entry in document["scenarios"]:
        share = slowed.get(entry["name"], 1.0)
        after = {**quiet, "deflate_mib_per_s": 45.0 * share, "others": 0.3 if share < 1 else 0.01}
        entry["canary"] = [quiet, quiet, quiet, quiet, after]
    (folder / "run.json").write_text(json.dumps(document))
    return gate(folder / "results", f"--replay={folder / 'run.json'}")


def texts(done: Finished) -> tuple[str, str, str]:
    """Return the summary, the report's first page, and Allure's table of the environment."""
    (folder,) = done.results.glob("2*")
    names = ("summary.md", "answers.html", "allure-results/environment.properties")
    summary, front, environment = ((folder / name).read_text() for name in names)
    return summary, front, environment


def test_a_machine_that_was_off_is_said_in_one_line(tmp_path: Path, document: dict[str, Any]) -> None:
    """It stood in run.json alone, and in the reasons of what it made undecided."""
    done = replayed(tmp_path, document, {"batch-1k": 0.4, "cross-az": 0.5})
    summary, front, environment = texts(done)
    assert done.output.count(OF_SLOWED) == 1
    assert summary.count(f"- note: {OF_SLOWED}") == 1
    assert front.count(OF_SLOWED) == 1
    assert "canary=deflate 18 .. 45 MiB/s, loopback 21,000 .. 21,000 round trips/s" in environment


def test_of_a_quiet_one_there_are_its_figures_alone(tmp_path: Path, document: dict[str, Any]) -> None:
    done = replayed(tmp_path, document, {})
    summary, front, environment = texts(done)
    assert "machine was off" not in done.output + summary + front
    assert "steal up to 0 %, other processes up to 1 %" in environment
