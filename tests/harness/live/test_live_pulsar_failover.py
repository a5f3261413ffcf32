"""Faults of Pulsar end to end: what goes on without a loss is green, and a cluster that loses messages is not."""

from pathlib import Path

import pytest

from tests.harness.run_gate import Finished, gate

ASKED = ("--system", "pulsar", "--family", "failover", "--broker-warmup", "5", "--relations-only")
KEPT = ("lost", "duplicated", "reordered", "phantom", "divergent")
THE_MACHINES = {"outage_s.max", "receive_outage_s.max", "rate_recovery_s"}
"""What a machine may be too slow for, once seven nodes share it with others."""
LOSES = '''
"""One copy, and the bookie that has it loses it: its journal and its entry logs are gone when it comes back."""

import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import perfgate.faults
from perfgate.model import Fault, TopicSpec
from perfgate.model.catalogue import Family
from perfgate.catalogue.pulsar_failover import SCENARIOS

perfgate.faults.__path__.append(str(Path(__file__).parent / "faults"))
base = next(row for row in SCENARIOS if row.name == "kill-bookie-defaults")
ONE_COPY = replace(
    base,
    name="one-copy-lost",
    summary="the one copy is lost",
    families=("lossy",),
    topic=replace(base.topic, replication_factor=1, ack_quorum=1),
    fault=Fault(kind="lose-bookie", hold_s=5.0),
)
FAMILIES = (Family(name="lossy", about="messages that are lost", scenarios=(ONE_COPY,)),)
'''
FAULT = '''
"""lose-bookie: a bookie is killed, its files are removed but for what says whose they are, and it is started again."""

import tempfile
from pathlib import Path

from perfgate.model.faults import Expectation, FaultKind


def _act(scene):
    bookie = scene.watch.last.replicas[0][0]
    scene.do("kill", bookie, "bookie")
    scene.hold()
    for folder in Path(tempfile.gettempdir()).glob(f"kafka-perf-gate-pulsar-data-*/bookie-{bookie}"):
        for path in folder.rglob("*"):
            if path.suffix in (".txn", ".log") or path.parent.name == "locations":
                path.unlink(missing_ok=True)
    scene.do("start", bookie, "bookie")
    scene.hold(20.0)


FAULT = FaultKind(
    name="lose-bookie",
    act=_act,
    sending=lambda case: Expectation(0.0, 120.0, "its files are gone"),
    commands=None,
)
'''


@pytest.fixture(scope="module")
def without_a_bookie(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return gate(tmp_path_factory.mktemp("killed"), *ASKED, "-k", "kill-bookie-delayed")


@pytest.mark.slow
def test_a_bookie_that_is_killed_costs_no_message_where_two_copies_are_enough(without_a_bookie: Finished) -> None:
    entry = without_a_bookie.scenario("kill-bookie-delayed")
    (measured,) = entry["rounds"]
    metrics, failover = measured["metrics"], measured["failover"]
    assert entry["verdict"] != "INVALID", without_a_bookie.output
    red = {judgement["metric"] for judgement in entry["judgements"] if judgement["verdict"] == "REGRESSED"}
    assert red <= THE_MACHINES, without_a_bookie.output
    assert [failover["integrity"][kind] for kind in KEPT] == [0] * len(KEPT)
    assert metrics["outage_s.max"] < 15, "it was away for 15 s"
    assert metrics["full_isr_s"] > 0
    assert metrics["broker_cpu_during_cores"] > 0


@pytest.mark.slow
def test_its_history_gives_the_same_answer_again(without_a_bookie: Finished, tmp_path: Path) -> None:
    (recorded,) = without_a_bookie.results.glob("2*/run.json")
    again = gate(tmp_path, f"--replay={recorded}", "--family", "failover", "--system", "pulsar")
    assert again.code == without_a_bookie.code, again.output
    name = "kill-bookie-delayed"
    old, new = without_a_bookie.scenario(name)["rounds"][0], again.scenario(name)["rounds"][0]
    assert new["failover"] == old["failover"]


@pytest.mark.slow
def test_a_cluster_that_loses_its_one_copy_is_red(tmp_path: Path) -> None:
    own = tmp_path / "own"
    (own / "faults").mkdir(parents=True)
    (own / "families.py").write_text(LOSES)
    (own / "faults" / "lose_bookie.py").write_text(FAULT)
    done = gate(
        tmp_path / "results", f"--scenarios={own}", "--system", "pulsar", "-k", "one-copy-lost", "--broker-warmup", 5
    )
    entry = done.scenario("one-copy-lost")
    assert done.code == 1, done.output
    assert entry["verdict"] in ("REGRESSED", "BROKEN"), done.output
