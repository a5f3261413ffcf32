"""With one broker gone 64 of 145 scenarios were "not run", and the night was green."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from perfgate.fixtures.book import BOOK, Book, profile_of
from perfgate.fixtures.gate import ThresholdGate
from perfgate.fixtures.run_config import RUN_CONFIG
from perfgate.judge.thresholds import load_profiles, profile_facts
from perfgate.model import ClusterSpec, Profile
from perfgate.model.errors import ConfigurationError
from perfgate.model.target import OfCluster
from perfgate.report.results import load_run
from perfgate.systems.attached.target import TwoTargets
from perfgate.systems.kafka.attached import identity
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.external import ExternalTarget
from tests.harness.build import profile, scenario, threshold
from tests.harness.build.clock import Clock
from tests.harness.build.real_brokers import FILE
from tests.harness.build.recorded import RECORDED
from tests.harness.forked import gate

THREE = scenario("replicas-3")
HELD = profile(threshold("records_per_s", 1000.0, name="replicas-3"))
REASON = OfCluster("it needs 3 replicas, and the cluster has 2 brokers")


def owed(reason: str | None, named: Profile | None) -> dict[str, str]:
    """Return what the book holds as owed once a gate was asked for replicas-3, which cannot be run for this reason."""
    book = Book()
    request = Mock(config=Mock(stash={RUN_CONFIG: Mock(held=Mock(profile_named=named)), BOOK: book}))
    ThresholdGate(Mock(cannot=lambda _: reason), request)._cannot(THREE)
    return book.owed


def test_a_scenario_that_a_named_profile_holds_and_the_cluster_lacks_is_owed() -> None:
    assert owed(REASON, HELD) == {"replicas-3": REASON}
    assert owed(REASON, None) == owed(REASON, profile(threshold("records_per_s", 1.0, name="other"))) == {}
    assert owed("faults on real brokers need --allow-faults", HELD) == {}, "that is what the run was asked for"
    assert owed(None, HELD) == {}


def attached(folder: Path, text: str = FILE) -> ExternalTarget:
    path = folder / "ours.toml"
    path.write_text(text)
    return ExternalTarget(load_target(path, lambda _: {}), run_id="r", manifests=folder / "m", note=print)


def test_too_few_brokers_are_a_reason_of_the_cluster_and_a_file_is_none(tmp_path: Path) -> None:
    replicas = scenario()
    target = attached(tmp_path)
    target._brokers = {1: "kafka-1:9093", 2: "kafka-2:9093"}
    row = replace(replicas, topic=replace(replicas.topic, replication_factor=3))
    assert isinstance(target.cannot(row), OfCluster)
    settings = replace(replicas, cluster=ClusterSpec(config=(("num.io.threads", "4"),)))
    assert target.cannot(settings)
    assert not isinstance(target.cannot(settings), OfCluster)
    whole = attached(tmp_path)
    whole._brokers = {n: f"kafka-{n}:9093" for n in (1, 2, 3)}
    reason = TwoTargets(whole, target, target._described).cannot(row)
    assert isinstance(reason, OfCluster)
    assert reason == "ours: it needs 3 replicas, and the cluster has 2 brokers"


def test_a_run_that_owes_a_verdict_is_undecided_and_so_is_its_replay(tmp_path: Path) -> None:
    recorded = tmp_path / "run.json"
    recorded.write_text(json.dumps(load_run(RECORDED)))
    assert gate(tmp_path / "green", f"--replay={recorded}").code == 0
    recorded.write_text(json.dumps({**load_run(RECORDED), "owed": {"replicas-4": REASON}}))
    done = gate(tmp_path / "results", f"--replay={recorded}")
    assert done.code == 6, done.output
    assert f"undecided: replicas-4: {REASON}" in done.output
    assert f"To do: have the cluster as the profile has it, then run again: {REASON}" in done.output
    assert done.run["owed"] == {"replicas-4": REASON}
    assert done.run["exit_code"] == 6


def test_the_number_of_brokers_is_a_fact_of_a_profile(tmp_path: Path) -> None:
    run = load_run(RECORDED)
    target = {**run["target"], "kind": "brokers", "name": "ours", "brokers": 2}
    assert profile_facts(target, run["environment"], run["tier"], "librdkafka")["brokers"] == "2"
    assert "brokers" not in profile_facts(run["target"], run["environment"], run["tier"], "librdkafka")
    rate = "[batch-1k]\nrecords_per_s = { baseline = 28440, tolerance = 0.3 }\n"
    (tmp_path / "ours.toml").write_text(f'[profile]\ntarget = "brokers"\ncluster = "ours"\nbrokers = 3\n{rate}')
    (named,) = load_profiles(tmp_path).values()
    for brokers, held in ((2, None), (3, named)):
        book = Book(tier=run["tier"], driver=run["driver"], environment=run["environment"])
        book.target = {**target, "brokers": brokers}
        config: Any = Mock(held=Mock(profiles={"ours": named}, profile_named=named, profile_forced=False))
        assert profile_of(config, book) is held
        assert book.owed == ({} if held else {"ours": "its thresholds are not held: brokers 3 there, 2 here"})
    for brokers in (2, 3, 4):  # a profile that nobody named was left out without a word: "no stored thresholds apply"
        book = Book(tier=run["tier"], driver=run["driver"], environment=run["environment"])
        book.target = {**target, "brokers": brokers}
        config = Mock(held=Mock(profiles={"ours": named}, profile_named=None, profile_forced=False))
        assert profile_of(config, book) is (named if brokers == 3 else None)
        assert bool(book.owed) is (brokers == 2), "a cluster that grew lost nothing"
    book.owed.clear()
    book.target = {key: value for key, value in target.items() if key != "brokers"}
    assert profile_of(config, book) is None
    assert not book.owed, "a recording that does not state their number lacks none"


@pytest.mark.parametrize("there", [2, 4])
def test_a_file_that_states_the_number_refuses_another_at_the_start(tmp_path: Path, there: int) -> None:
    brokers = {n: f"kafka-{n}:9093" for n in range(1, there + 1)}
    stated = attached(tmp_path, "brokers = 3\n" + FILE)._described
    with pytest.raises(ConfigurationError, match=rf"ours.toml: brokers = 3, and the cluster has {there} \(1, 2"):
        identity.refuse_another_number(stated, brokers)
    identity.refuse_another_number(attached(tmp_path)._described, brokers)
    identity.refuse_another_number(stated, {n: "" for n in (1, 2, 3)})


@pytest.mark.parametrize("wrong", ["0", "2.5", '"3"', "true", "100000"])
def test_the_number_is_a_whole_one(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=r"brokers = .* must be a whole number from 1 to 10000"):
        attached(tmp_path, f"brokers = {wrong}\n{FILE}")


def test_a_broker_that_is_gone_at_the_end_is_told(
    tmp_path: Path, clock: Clock, admin_by: Callable[[Callable[[], object]], None]
) -> None:
    target = attached(tmp_path)
    assert target.gone() == "", "nothing was asked of brokers that were never reached"
    target._brokers = {1: "kafka-1:9093", 2: "kafka-2:9093"}
    there = [1, 2]
    answered = Mock(result=lambda timeout: Mock(nodes=[Mock(id=n) for n in there]))
    admin_by(lambda: Mock(describe_cluster=lambda **_: answered))
    assert target.gone() == ""
    there.remove(2)
    assert "brokers 1, 2 at the start of the run, and 1 at its end" in target.gone()
