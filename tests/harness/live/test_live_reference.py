"""On real brokers: a run that is held against a reference is red where more is lost than may be, green where not."""

from pathlib import Path

import jsonschema
import pytest

from tests.harness.build.recorded import SCHEMA
from tests.harness.live.test_live_compare import GENEROUS, SHORT
from tests.harness.run_gate import PROBES, ROOT, Finished, gate

RATIOS = f"--thresholds={ROOT / 'thresholds'}"


def held(folder: Path, reference: str, budget: str, *arguments: str) -> Finished:
    path = folder / "reference.toml"
    path.write_text(reference)
    return gate(folder / "results", PROBES, *SHORT, RATIOS, f"--reference={path}", "--budget", budget, *arguments)


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Every record is written through to the disk, in the reference none is: slower wherever there is one."""
    reference = 'name = "no fsync"\n[topic]\n"flush.messages" = 1000000000\n'
    folder = tmp_path_factory.mktemp("slowed")
    return held(folder, reference, GENEROUS, "--set", "topic.flush.messages=1", "--set", "producer.linger.ms=0")


def test_what_is_slower_than_the_reference_is_red(slowed: Finished) -> None:
    assert slowed.code == 1, slowed.output
    (found,) = slowed.run["scenarios"]
    assert (found["name"], found["verdict"]) == ("capped-plain", "REGRESSED")
    (rate,) = (one for one in found["judgements"] if one["metric"] == "records_per_s")
    # Brokers' CPU may be decided before it: nothing is measured any more then.
    assert rate["verdict"] in {"REGRESSED", "INCONCLUSIVE"}, slowed.output
    assert rate["measured"] < rate["limit"] < rate["baseline"]
    (sentence,) = (line for line in slowed.output.splitlines() if line.startswith("REGRESSED capped-plain"))
    assert " than the reference (" in sentence or " above the reference (" in sentence
    assert "held against the reference 'no fsync'" in slowed.output
    assert "RED: judged 1 of 1 scenarios (1 REGRESSED)" in slowed.output
    assert (slowed.run["change"], slowed.run["comparisons"]) == (None, [])
    assert slowed.run["reference"]["topic"] == {"flush.messages": "1000000000"}


def test_both_sides_are_recorded_in_turn_with_every_record_accounted_for(slowed: Finished) -> None:
    (beside,) = slowed.run["references"]
    (scenario,) = slowed.run["scenarios"]
    assert beside["method"] == "turns"
    assert [r["index"] for r in beside["measured"]["rounds"]] == [r["index"] for r in scenario["rounds"]]
    for entry in (*beside["measured"]["rounds"], *scenario["rounds"]):
        accounting = entry["accounting"]
        assert all(flaw["metrics"] for flaw in entry["flaws"])
        # Where each record is written through, what still waits at a turn's end is withdrawn.
        assert accounting["attempted"] == accounting["acked"] + accounting["withdrawn"]
        assert accounting["acked"] == accounting["offset_delta"] > 0


def test_the_run_keeps_to_the_schema_and_replays_to_the_same_verdict(slowed: Finished, tmp_path: Path) -> None:
    jsonschema.validate(slowed.run, SCHEMA, format_checker=jsonschema.FormatChecker())
    (recorded,) = slowed.results.glob("2*/run.json")
    again = gate(tmp_path, PROBES, RATIOS, "-k", "capped-plain", f"--replay={recorded}")
    assert again.code == 1, again.output
    (first,), (second,) = slowed.run["scenarios"], again.run["scenarios"]
    assert second["judgements"] == first["judgements"]


@pytest.mark.slow
def test_the_same_again_is_not_red(tmp_path: Path) -> None:
    """On a machine that is busy with something else it may not tell; what it never says is that anything was lost."""
    done = held(tmp_path, 'name = "the same"\n', "2m")
    assert done.code in (0, 6), done.output
    assert {one["verdict"] for one in done.run["scenarios"]} <= {"PASS", "IMPROVED", "INCONCLUSIVE"}
