"""Two clusters that exist, with TLS and SCRAM: each side of a comparison on its own, each by its own file."""

from pathlib import Path

import pytest

from perfgate.host.state import state_dir
from tests.harness.live.test_live_brokers import topics
from tests.harness.run_gate import PROBES, gate
from tests.harness.secured import Secured, secured

SHORT = ("-k", "capped-plain", "--broker-warmup", "5", "--warmup-max", "1", "--window", "1", "--budget", "30s")
BY_LATENCY = ("--on", "latency_ms.p99")
"""Both sides reach the cap, and no Prometheus tells the brokers' CPU."""


def file_of(brokers: Secured, folder: Path, name: str, mib_per_s: int) -> Path:
    folder.mkdir()
    path = brokers.target_file(folder)
    text = path.read_text().replace('name = "staging"', f'name = "{name}"')
    path.write_text(text.replace("mib-per-s = 400", f"mib-per-s = {mib_per_s}"))
    return path


@pytest.mark.slow
def test_two_clusters_are_compared_and_left_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with secured(tmp_path / "a") as old, secured(tmp_path / "b") as new:
        one, other = file_of(old, tmp_path / "old", "old", 400), file_of(new, tmp_path / "new", "new", 4)
        done = gate(tmp_path / "results", PROBES, *SHORT, *BY_LATENCY, "--target", one, "--against", other)
        assert done.code in (0, 1, 6), done.output
        (found,) = done.run["comparisons"]
        assert (found["change"], found["method"], found["two_clusters"]) == ("on new", "turns", True)
        assert found["verdict"] != "INVALID", found["reasons"]
        assert found["units"] >= 2
        paths = [found[side]["link"]["rtt_ms"] for side in ("baseline", "candidate")]
        assert min(paths) > 0
        assert paths[0] != paths[1], "each side has its own"
        assert "round trip, same-zone: " in done.output
        ids = [brokers.admin.describe_cluster().result(timeout=60).cluster_id for brokers in (old, new)]
        assert [cluster["cluster_id"] for cluster in done.run["target"]["clusters"]] == ids
        for side in ("baseline", "candidate"):
            for entry in found[side]["rounds"]:
                assert entry["accounting"]["attempted"] == entry["accounting"]["offset_delta"] > 0
            rate = found[side]["load"]["rate"] * found[side]["declared"]["record_bytes"]
            assert rate <= 4 * 2**20, "both are offered what the stricter file allows"
        assert not topics(old) and not topics(new)  # noqa: PT018 - one statement
        assert not list((state_dir() / "manifests").glob("*.jsonl"))
        same = gate(tmp_path / "same", PROBES, *SHORT, "--target", one, "--against", one)
        assert same.code == 2
        assert f"describes cluster {ids[0]}, as --target does: name another" in same.output
