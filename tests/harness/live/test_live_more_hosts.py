"""--confirm-with-more-hosts on real brokers: generators that are the limit are told from brokers that are it."""

from pathlib import Path
from typing import Any

import pytest

from tests.harness.run_gate import PROBES, UNDECIDED, Finished, gate

pytestmark = pytest.mark.slow
ROUNDS = ("--rounds=5", "--window=3", "--broker-warmup=20")


def confirmed(results: Path, name: str, *arguments: str) -> tuple[Finished, dict[str, Any]]:
    done = gate(results, PROBES, "-k", name, "--confirm-with-more-hosts", *ROUNDS, *arguments)
    assert done.run["scenarios"], done.output
    entry = done.scenario(name)
    rounds, fewer = entry["rounds"], entry["one_host_fewer"]
    assert [r["index"] for r in rounds] == [r["index"] for r in fewer], done.output
    for one in (*rounds, *fewer):
        accounting = one["accounting"]
        assert accounting["acked"] == accounting["offset_delta"] > 0
        assert accounting["unresolved"] == 0
    return done, entry


def test_generators_that_are_the_limit_make_the_scenario_invalid(tmp_path: Path) -> None:
    """Each producer is bound by its own client: one request under way over a link of 10 ms, whatever brokers take."""
    done, entry = confirmed(
        tmp_path,
        "capped-plain",
        *("--hosts=local:2", "--set=producers.processes=2", "--set=link=cross-zone-10ms"),
        "--set=producer.max.in.flight.requests.per.connection=1",
    )
    found = entry["more_hosts"]
    assert (found["finding"], found["hosts"], found["fewer_hosts"]) == ("saturated", 2, 1), done.output
    assert [sorted({len(r["hosts"]) for r in entry[part]}) for part in ("rounds", "one_host_fewer")] == [[2], [1]]
    assert found["ratio"] > found["at_most"] == 1.05
    assert entry["verdict"] == "INVALID"
    assert "generator saturated: " in done.output
    assert done.code == UNDECIDED
    replayed = gate(tmp_path / "again", PROBES, f"--replay={next(tmp_path.glob('2*/run.json'))}", "-k", "capped-plain")
    assert replayed.scenario("capped-plain")["more_hosts"] == found


def test_a_load_that_its_own_cap_holds_is_confirmed_on_three_hosts(tmp_path: Path) -> None:
    """20,000 records/s in batches of 16 KiB are few for these brokers, and for one producer of the three."""
    done, entry = confirmed(tmp_path, "capped-wide", "--hosts=local:3", "--set=producers.processes=3")
    found = entry["more_hosts"]
    assert (found["finding"], found["hosts"], found["fewer_hosts"]) == ("confirmed", 3, 2), done.output
    assert entry["verdict"] in ("MISSING", "INCONCLUSIVE"), done.output
    assert "confirmed: its own cap of 20,000 records/s held it" in done.output
    assert "confirmed: its own cap" in next(tmp_path.glob("2*/summary.md")).read_text()


def test_brokers_that_are_the_limit_are_told_from_generators(tmp_path: Path) -> None:
    """A broker that may use half a core is the limit for three producers as for four: each record is a request."""
    done, entry = confirmed(
        tmp_path,
        "capped-plain",
        *("--hosts=local:4", "--set=producers.processes=4", "--set=cluster.brokers=1", "--broker-cpus=0.5"),
        *("--rounds=7", "--broker-warmup=40"),
    )
    print(entry["more_hosts"]["words"])
    assert entry["more_hosts"]["finding"] != "saturated", done.output
