"""Red paths on real brokers: what breaks a round is BROKEN or INVALID and says why, within a bound; nothing stays."""

import re
import signal
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from perfgate.systems.kafka.attached.java_properties import read_properties
from tests.harness.live.started_gates import (
    ORPHAN_BOUND_S,
    SHORT,
    VERDICT_BOUND_S,
    children,
    finished,
    in_the_middle_of_a_round,
    run_folders,
    running_gate,
    wait_for,
)
from tests.harness.run_gate import BEGUN_BOUND_S, PROBES, UNDECIDED, Finished, gate

LONG_WINDOW = ("--rounds", "2", "--window", "240", "--warmup-max", "2", "--broker-warmup", "0")


def only_reason(done: Finished, name: str, verdict: str = "INVALID") -> str:
    entry = done.scenario(name)
    assert entry["verdict"] == verdict
    assert done.code == (UNDECIDED if verdict == "INVALID" else 1), done.output
    assert done.allure[name]["status"] == "failed"
    (reason,) = entry["reasons"]
    return str(reason)


def test_a_broker_killed_in_a_round_is_broken_with_its_reason(tmp_path: Path) -> None:
    with running_gate(tmp_path, PROBES, "-k", "capped-wide", *LONG_WINDOW) as (process, run):
        in_the_middle_of_a_round(run)
        broker = children(run, "broker-2.properties")[0]
        broker.kill()
        done = finished(process, tmp_path)
    reason = only_reason(done, "capped-wide", "BROKEN")
    assert f"target unhealthy: broker 2 (pid {broker.pid}) was killed by signal 9; end of its log:" in reason
    assert "BROKEN capped-wide" in done.output
    assert "RED: judged 1 of 1 scenarios (1 BROKEN)" in done.output


def test_a_generator_killed_in_a_round_is_invalid_with_its_reason(tmp_path: Path) -> None:
    with running_gate(tmp_path, PROBES, "-k", "capped-wide", *LONG_WINDOW) as (process, run):
        in_the_middle_of_a_round(run)
        children(run, "perfgate.load.worker")[0].kill()
        done = finished(process, tmp_path)
    reason = only_reason(done, "capped-wide")
    assert "the generator process producer-1 was killed by signal 9 before its result" in reason


@pytest.mark.slow
def test_one_of_several_generators_killed_stops_the_others(tmp_path: Path) -> None:
    with running_gate(tmp_path, PROBES, "-k", "capped-by-four", *LONG_WINDOW) as (process, run):
        in_the_middle_of_a_round(run)
        generators = children(run, "perfgate.load.worker")
        assert len(generators) == 3, "two of producers, one of consumers"
        generators[0].kill()
        done = finished(process, tmp_path)
    assert "was killed by signal 9 before its result" in only_reason(done, "capped-by-four")
    assert not [generator for generator in generators if alive(generator)]


def test_a_record_that_no_acknowledgement_accounts_for_is_broken(tmp_path: Path) -> None:
    with running_gate(tmp_path, PROBES, "-k", "paced-slow", *SHORT, "--window", "20") as (process, run):
        in_the_middle_of_a_round(run)
        command = " ".join(children(run, "broker-1.properties")[0].cmdline())
        properties = re.search(r"\S+broker-1\.properties", command)
        assert properties
        listener = re.match(r"SAMEZONE://([\d.:]+)", read_properties(Path(properties[0]))["listeners"])
        assert listener
        topics = AdminClient({"bootstrap.servers": listener[1]}).list_topics(timeout=10).topics
        (topic,) = [name for name in topics if name.startswith("kpg-")]
        foreign = Producer({"bootstrap.servers": listener[1]})
        foreign.produce(topic, b"a record of somebody else", partition=0)
        assert foreign.flush(10) == 0
        done = finished(process, tmp_path)
    # On brokers of the suite's own nobody else writes: it was sent again, or its acknowledgement never came.
    reason = only_reason(done, "paced-slow", "BROKEN")
    assert "records unaccounted" in reason
    assert "(+1)" in reason


def test_all_sends_failing_is_broken_with_the_brokers_reason(tmp_path: Path) -> None:
    done = gate(tmp_path, PROBES, "-k", "capped-wide", *SHORT, "--set", "topic.max.message.bytes=100")
    reason = only_reason(done, "capped-wide", "BROKEN")
    assert "every record failed" in reason
    assert "Message size too large" in reason
    assert done.run["modified"] == ["topic.max.message.bytes=100"]
    assert "MODIFIED run: topic.max.message.bytes=100" in done.output


@pytest.mark.parametrize("name", ["capped-by-generator", pytest.param("paced-by-generator", marks=pytest.mark.slow)])
def test_a_generator_that_is_the_limit_is_invalid(tmp_path: Path, name: str) -> None:
    done = gate(tmp_path, PROBES, "-k", name, *SHORT)
    reason = only_reason(done, name)
    assert "generator saturated" in reason
    assert re.search(r"although its buffer (never pushed|did not push) back", reason)
    entry = done.scenario(name)
    # Where the brokers did not take it either, as on a busy machine, that is a result.
    not_taken = any(one["not_sustained"] for one in entry["rounds"])
    assert len(entry["discarded_rounds"]) == 2 or not_taken, "it was measured again before it was believed"


def test_a_broker_that_cannot_start_is_a_clear_error(tmp_path: Path) -> None:
    done = gate(tmp_path, PROBES, "-k", "paced-slow", *SHORT, "--set", "broker.num.io.threads=none")
    assert done.code == 2, done.output
    assert "broker settings of this run: {'num.io.threads': 'none'}" in done.output
    assert "Invalid value none for configuration num.io.threads" in done.output


@pytest.mark.slow
def test_a_paced_load_that_the_brokers_do_not_take_is_red_without_thresholds(tmp_path: Path) -> None:
    done = gate(tmp_path, PROBES, "-k", "paced-by-brokers", *SHORT, "--window", "1")
    entry = done.scenario("paced-by-brokers")
    assert (done.code, entry["verdict"]) == (1, "REGRESSED"), done.output
    assert "not sustained: the brokers took" in done.output
    assert entry["accounting"]["attempted"] == entry["accounting"]["acked"], "all of it was sent in the end"


@pytest.mark.slow
def test_a_killed_run_of_the_official_tools_leaves_nothing_behind(tmp_path: Path) -> None:
    before = run_folders()
    with running_gate(tmp_path, PROBES, "-k", "capped-wide", "--driver", "java", *LONG_WINDOW) as (process, run):
        wait_for(lambda: children(run, "tools.ProducerPerformance"), BEGUN_BOUND_S, "an official tool")
        family = run.children(recursive=True)
        process.kill()
        process.communicate(timeout=VERDICT_BOUND_S)
        wait_for(lambda: not any(alive(p) for p in family), ORPHAN_BOUND_S, f"the end of {family}")
        wait_for(lambda: run_folders() <= before, ORPHAN_BOUND_S, "the removal of its folders")


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        signal.SIGINT,
        *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGHUP, signal.SIGTERM)),
    ],
    ids=lambda n: n.name,
)
def test_a_killed_run_leaves_no_process_and_no_data_behind(tmp_path: Path, number: signal.Signals) -> None:
    with running_gate(tmp_path, PROBES, "-k", "capped-wide", *LONG_WINDOW) as (process, run):
        in_the_middle_of_a_round(run)
        family = run.children(recursive=True)
        data = Path(
            re.findall(r"\S+(?=/broker-1\.properties)", " ".join(word for p in family for word in p.cmdline()))[0]
        )
        assert data.is_dir()
        assert len(family) >= 5, "three brokers, their guard and a generator"
        process.send_signal(number)
        process.communicate(timeout=VERDICT_BOUND_S)
        wait_for(lambda: not any(alive(p) for p in family), ORPHAN_BOUND_S, f"the end of {family}")
        wait_for(lambda: not data.exists(), ORPHAN_BOUND_S, f"the removal of {data}")
    if number != signal.SIGKILL:
        assert process.returncode == 2
        (entry,) = [e for e in Finished(2, "", tmp_path).run["not_run"] if e["name"] == "capped-wide"]
        assert entry["reason"] == "the run was interrupted before it"


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.slow
def test_a_red_row_is_measured_again_on_a_fresh_cluster_before_it_counts(tmp_path: Path) -> None:
    """The limit is out of reach: both looks see it, on two clusters, and both are in the message and in run.json."""
    folder = tmp_path / "thresholds"
    folder.mkdir()
    (folder / "relations.toml").write_text("")
    (folder / "high.toml").write_text(
        '[profile]\ntarget = "embedded"\n[paced-slow]\nrecords_per_s = { baseline = 5000, tolerance = 0.1 }\n'
        "broker_cpu_us_per_record = { baseline = 500, tolerance = 0.9 }\n"
    )
    warm = ("--broker-warmup", "10")
    for attempt in "123":  # with a profile the canary speaks, and a machine may well be too noisy at times
        done = gate(tmp_path / attempt, PROBES, "-k", "paced-slow", *SHORT, *warm, f"--thresholds={folder}")
        if done.code != UNDECIDED or "canary" not in done.output:
            break
    assert done.code == 1, done.output
    entry = done.scenario("paced-slow")
    assert entry["verdict"] == "REGRESSED"
    assert entry["first_look"]["verdict"] == "REGRESSED"
    (second,) = done.run["second_looks"]
    assert (second["name"], len(second["rounds"])) == ("paced-slow", len(entry["rounds"]))
    assert second["rounds"] != entry["rounds"]
    assert len(list(done.results.glob("2*/logs/cluster-*"))) == 2
    assert "confirms the first, which was red; first measurement: records_per_s 5" in done.output
    assert len(entry["canary"]) >= 5
