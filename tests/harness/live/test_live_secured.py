"""The security family on real brokers: clients come in over TLS, and over TLS with SCRAM, and every record is there."""

from pathlib import Path

import pytest

from tests.harness.run_gate import gate

SHORT = ("--tier=nightly", "--rounds=2", "--window=2", "--warmup-max=2", "--broker-warmup=5", "--relations-only")


@pytest.mark.slow
def test_tls_and_scram_are_measured_and_no_password_is_written(tmp_path: Path) -> None:
    done = gate(tmp_path, *SHORT, "-k", "security-tls or security-sasl-tls")
    assert {entry["name"] for entry in done.run["scenarios"]} == {"security-tls", "security-sasl-tls"}, done.output
    for entry in done.run["scenarios"]:
        assert entry["verdict"] != "INVALID", done.output
        accounting = entry["accounting"]
        assert accounting["acked"] == accounting["offset_delta"] > 0
        assert accounting["acked"] + accounting["withdrawn"] == accounting["attempted"]
        assert entry["declared"]["cluster"]["security"] in entry["name"]
        assert entry["rtt_ms"]["same-zone"] > 0
    assert {one["security"] for one in done.run["target"]["clusters"]} == {"tls", "sasl-tls"}
