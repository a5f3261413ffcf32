"""Two clusters that exist, with TLS and SCRAM: each side on its own, in a comparison and in a gate with a reference."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perfgate.host.disk import state_dir
from tests.harness.live.real_brokers import topics
from tests.harness.live.test_live_compare import GENEROUS
from tests.harness.run_gate import PROBES, ROOT, Finished, gate
from tests.harness.secured import Secured, secured

SHORT = ("-k", "capped-plain", "--broker-warmup", "5", "--warmup-max", "1", "--window", "1", "--budget", "30s")
BY_LATENCY = ("--on", "latency_ms.p99")
"""Both sides reach the cap, and no Prometheus tells the brokers' CPU."""
CPU_TOO = "broker_cpu_us_per_record = { at_most = 1.9 }"
"""Of the default table: left out where nobody tells it."""


def file_of(brokers: Secured, folder: Path, name: str, mib_per_s: int) -> Path:
    folder.mkdir()
    path = brokers.target_file(folder)
    text = path.read_text().replace('name = "staging"', f'name = "{name}"')
    path.write_text(text.replace("mib-per-s = 400", f"mib-per-s = {mib_per_s}"))
    return path


@dataclass(frozen=True, kw_only=True, slots=True)
class Two:
    """Both clusters, and their target files."""

    old: Secured
    new: Secured
    old_file: Path
    new_file: Path

    @property
    def ids(self) -> list[str]:
        return [brokers.admin.describe_cluster().result(timeout=60).cluster_id for brokers in (self.old, self.new)]

    def are_as_they_were(self) -> bool:
        left = [path.name for path in (state_dir() / "manifests").glob("*.jsonl")]
        return not (topics(self.old) or topics(self.new) or left)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("two")
    for name in ("a", "b"):
        (folder / name).mkdir()
    with pytest.MonkeyPatch.context() as patched, secured(folder / "a") as old, secured(folder / "b") as new:
        patched.setenv("XDG_STATE_HOME", str(folder / "state"))
        files = (file_of(old, folder / "old", "old", 400), file_of(new, folder / "new", "new", 4))
        yield Two(old=old, new=new, old_file=files[0], new_file=files[1])


def see_each_measured_by_itself(done: Finished, two: Two, sides: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """See that each side has its own path, and that every record of it is accounted for on its own cluster."""
    paths = [side["link"]["rtt_ms"] for side in sides]
    assert min(paths) > 0
    assert paths[0] != paths[1], "each side has its own"
    assert "round trip, same-zone: " in done.output
    assert [cluster["cluster_id"] for cluster in done.run["target"]["clusters"]] == two.ids
    for side in sides:
        for entry in side["rounds"]:
            accounting = entry["accounting"]
            assert accounting["attempted"] - accounting["withdrawn"] == accounting["offset_delta"] > 0
        rate = side["load"]["rate"] * side["declared"]["record_bytes"]
        assert rate <= 4 * 2**20, "both are offered what the stricter file allows"


@pytest.mark.slow
def test_two_clusters_are_compared_and_left_as_they_were(two: Two, tmp_path: Path) -> None:
    targets = ("--target", two.old_file, "--against", two.new_file)
    done = gate(tmp_path / "results", PROBES, *SHORT, *BY_LATENCY, *targets)
    assert done.code in (0, 1, 6), done.output
    (found,) = done.run["comparisons"]
    assert (found["change"], found["method"], found["two_clusters"]) == ("on new", "turns", True)
    assert found["verdict"] != "INVALID", found["reasons"]
    assert found["units"] >= 2
    see_each_measured_by_itself(done, two, (found["baseline"], found["candidate"]))
    assert two.are_as_they_were()
    same = gate(tmp_path / "same", PROBES, *SHORT, "--target", two.old_file, "--against", two.old_file)
    assert same.code == 2
    assert f"describes cluster {two.ids[0]}, as --target does: name another" in same.output


@pytest.mark.slow
def test_the_gate_holds_a_cluster_against_another_that_is_there(two: Two, tmp_path: Path) -> None:
    reference = two.new_file.parent / "reference.toml"
    reference.write_text(f'name = "the old fleet"\n[target]\nfile = "{two.new_file.name}"\n')
    limits = tmp_path / "thresholds"
    limits.mkdir()
    (limits / "relations.toml").write_text((ROOT / "perfgate" / "catalogue" / "relations.toml").read_text())
    wide = ("records_per_s = { at_least = 0.1 }", '"latency_ms.p99" = { at_most = 10 }', CPU_TOO)
    (limits / "ratios.toml").write_text("\n".join(["[default]", *wide]))
    held = ("--reference", reference, f"--thresholds={limits}", "--budget", GENEROUS)
    done = gate(tmp_path / "results", PROBES, *SHORT, *held, "--target", two.old_file)
    assert done.code in (0, 6), done.output
    (scenario,), (beside,) = done.run["scenarios"], done.run["references"]
    assert (beside["change"], beside["method"], beside["two_clusters"]) == ("the old fleet", "turns", True)
    assert scenario["verdict"] in ("PASS", "IMPROVED", "INCONCLUSIVE"), scenario
    assert {one["metric"] for one in scenario["judgements"]} == {"records_per_s", "latency_ms.p99"}
    see_each_measured_by_itself(done, two, (scenario, beside["measured"]))
    assert "held against the reference 'the old fleet', measured in turns with it" in done.output
    assert two.are_as_they_were()
    (recorded,) = (tmp_path / "results").glob("2*/run.json")
    again = gate(tmp_path / "again", PROBES, f"--thresholds={limits}", "-k", "capped-plain", f"--replay={recorded}")
    assert again.run["scenarios"][0]["judgements"] == scenario["judgements"], again.output
