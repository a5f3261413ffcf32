"""Brokers of other versions, by file: from the oldest that starts on the Java at hand."""

from pathlib import Path

import pytest

from perfgate.model import SAME_ZONE, ClusterSpec
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from tests.harness.live.real_brokers import SHORT, own_state
from tests.harness.run_gate import PROBES, gate

__all__ = ["own_state"]
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", ["2.8.2", "3.9.1", "4.3.1"])
def test_a_row_runs_on_brokers_of_this_version(version: str, tmp_path: Path) -> None:
    target = EmbeddedTarget(log_folder=tmp_path / "logs", cross_zone=False, say=print)
    spec = ClusterSpec(brokers=1, version=version)
    target.prepare([spec])
    try:
        cluster = target.cluster(spec)
        path = tmp_path / "old.toml"
        path.write_text(
            f'bootstrap-servers = "{cluster.bootstrap(SAME_ZONE)}"\n[limits]\nbytes = "20 GB"\nmib-per-s = 100\n'
        )
        done = gate(tmp_path / "results", PROBES, *SHORT, "--target", path)
        left = [name for name in cluster.topics()._admin.list_topics(timeout=60).topics if not name.startswith("__")]
    finally:
        target.close()
    assert done.measured, done.output
    entry = done.scenario("paced-slow")
    assert entry["accounting"]["attempted"] == entry["accounting"]["offset_delta"] > 0
    assert done.run["target"]["brokers"] == 1
    told = {"2.8.2": "2.8", "3.9.1": "3.9", "4.3.1": "unknown"}  # from 4.0 on brokers do not tell theirs
    assert done.run["target"]["kafka_version"] == told[version]
    assert left == []
