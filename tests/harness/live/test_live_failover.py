"""A fault as a row, run as a user does: its cost, the fate of every record, and what must not pass for a result."""

import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from perfgate.faults.slow_follower import STILL_S
from perfgate.judge.phrases import number
from perfgate.measure.faults.analysis import LOGGED
from perfgate.report.html import build_report
from tests.harness.browser import NEEDS_CHROMIUM, browser, open_test, page, see_picture
from tests.harness.live.started_gates import children, finished, run_folders, running_gate, wait_for
from tests.harness.run_gate import BEGUN_BOUND_S, Finished, gate

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "page"]
ROW = "kill-leader-session-3s"
ASKED = ("-k", ROW, "--family", "failover", "--broker-warmup", "5")
EXIT_BOUND_S = 600
"""It waits 90 s for the broker; then the run has to end, on a slow machine too."""
THE_MACHINES = {"outage_s.max", "receive_outage_s.max", "rate_recovery_s"}
"""What a machine may be too slow for, once three brokers share it with others."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return gate(tmp_path_factory.mktemp("killed"), *ASKED, "--relations-only")


def test_a_killed_leader_costs_what_its_session_says_and_no_record(killed: Finished) -> None:
    entry = killed.scenario(ROW)
    (measured,) = entry["rounds"]
    metrics, failover = measured["metrics"], measured["failover"]
    red = {judgement["metric"] for judgement in entry["judgements"] if judgement["verdict"] == "REGRESSED"}
    assert red <= THE_MACHINES, killed.output
    assert entry["verdict"] != "INVALID", killed.output
    assert 1.0 < metrics["outage_s.max"] < 60
    assert 0 < metrics["outage_resolution_s"] < 1.0
    assert metrics["outage_affected"] == 6, "where the killed broker followed, its acknowledgement is waited for too"
    for kind in ("lost", "duplicated", "reordered", "phantom", "divergent"):
        assert failover["integrity"][kind] == 0
    assert failover["split_source"] == LOGGED
    assert 0 < failover["split"]["fenced_s"] <= failover["split"]["elected_s"] < metrics["outage_s.max"] + 0.1
    assert metrics["controller_changes"] == metrics["unclean_elections"] == 0
    assert metrics["broker_cpu_during_cores"] > 0
    (picture,) = killed.results.glob("2*/pictures/*-fault-*.png")
    assert picture.stat().st_size > 20_000


@NEEDS_CHROMIUM
def test_its_report_shows_the_outage(page: "Page", killed: Finished) -> None:
    entry = killed.scenario(ROW)
    (run,) = killed.results.glob("2*")
    open_test(page, build_report(run), "failover", f"{ROW}: {entry['verdict']}")
    page.get_by_text(f"outage {number(entry['metrics']['outage_s.max']['value'])} s").first.wait_for()
    see_picture(page, f"{ROW}-fault-1.png")


def test_its_history_gives_the_same_answer_again(killed: Finished, tmp_path: Path) -> None:
    (recorded,) = killed.results.glob("2*/run.json")
    again = gate(tmp_path, f"--replay={recorded}", "--family", "failover")
    assert again.code == killed.code, again.output
    old, new = killed.scenario(ROW)["rounds"][0], again.scenario(ROW)["rounds"][0]
    assert new["failover"] == old["failover"]
    assert new["metrics"] == pytest.approx(old["metrics"])
    assert new["untold"] == old["untold"] == {}, "of the time before the fault all of it is known"


@pytest.mark.slow
def test_a_broker_that_ends_when_it_is_started_again_is_broken_with_its_log(tmp_path: Path) -> None:
    before = run_folders()
    with running_gate(tmp_path, *ASKED, "--relations-only") as (process, run):
        wait_for(lambda: len(brokers_of(run)) == 3, BEGUN_BOUND_S, "three brokers")
        seen = brokers_of(run)
        wait_for(lambda: len(brokers_of(run)) < 3, BEGUN_BOUND_S, "the fault")
        (properties,) = set(seen) - set(brokers_of(run))
        text = Path(properties).read_text()
        Path(properties).write_text(re.sub(r"(?m)^node\.id=.*$", "node.id=77", text))
        spoilt_at = time.monotonic()
        done = finished(process, tmp_path, EXIT_BOUND_S)
        assert time.monotonic() - spoilt_at < EXIT_BOUND_S
    entry = done.scenario(ROW)
    assert (entry["verdict"], done.code) == ("BROKEN", 1), done.output
    (reason,) = entry["reasons"]
    assert f"{Path(properties).stem.replace('-', ' ')} (pid" in reason
    assert "exited with code 1; end of its log:" in reason
    assert json.dumps(entry["rounds"][-1]["failover"]) == "null"
    assert run_folders() == before


def brokers_of(run: psutil.Process) -> list[str]:
    """Return the settings files of the brokers that run."""
    found = []
    for process in children(run, "kafka.Kafka"):
        with suppress(psutil.Error):  # it may end, or be killed, between two looks
            found += re.findall(r"\S+/broker-\d\.properties", " ".join(process.cmdline()))
    return found


def one_fault(done: Finished, row: str) -> tuple[dict[str, Any], dict[str, float], dict[str, Any]]:
    """Return a scenario's entry with the metrics and the history of its only round, once that is valid."""
    entry = done.scenario(row)
    assert entry["verdict"] != "INVALID", done.output
    (measured,) = entry["rounds"]
    return entry, measured["metrics"], measured["failover"]


@pytest.mark.slow
def test_what_was_left_unread_is_read_on_and_the_other_group_keeps_up(tmp_path: Path) -> None:
    row = "backlog-60s-two-groups"
    done = gate(tmp_path, "-k", row, "--family", "backlog", "--broker-warmup", "5", "--relations-only")
    entry, metrics, failover = one_fault(done, row)
    red = {judgement["metric"] for judgement in entry["judgements"] if judgement["verdict"] == "REGRESSED"}
    assert red <= THE_MACHINES, done.output
    assert metrics["unread_records"] > 0.9 * 60 * entry["load"]["rate"], "nothing was fetched ahead while they rested"
    assert 0 < metrics["catch_up_s"] < 60
    assert metrics["receive_outage_s.max"] > 60
    assert metrics["redelivered_records"] == 0, "they read on from where they were"
    assert metrics["end_to_end_during_ms.p99"] > 0
    assert not any(count for kind, count in failover["integrity"].items() if kind not in ("unknown", "appeared"))
    assert f"note: {row}: " in done.output
    assert f"{metrics['unread_records']:,.0f} records unread, read in" in done.output


@pytest.mark.slow
def test_a_slow_follower_is_waited_for_by_consumers_and_not_by_producers_without_its_promise(tmp_path: Path) -> None:
    row = "slow-follower-acks-1"
    done = gate(tmp_path, "-k", row, "--family", "failover", "--broker-warmup", "5", "--relations-only")
    _, metrics, _ = one_fault(done, row)
    assert metrics["full_isr_s"] == 0.0, "it was in sync all the time"
    assert metrics["leader_changes"] == 0, "it leads nothing when it gets slow"
    still_ms = 1e3 * STILL_S
    assert metrics["end_to_end_during_ms.p99"] > max(0.8 * still_ms, metrics["end_to_end_before_ms.p99"])
    assert metrics["latency_during_ms.p50"] < metrics["end_to_end_during_ms.p50"]


@pytest.mark.slow
def test_what_a_dead_member_of_a_share_group_had_goes_to_the_others(tmp_path: Path) -> None:
    row = "consumer-kill-share"
    done = gate(tmp_path, "-k", row, "--family", "failover", "--broker-warmup", "5", "--relations-only")
    _, metrics, _ = one_fault(done, row)
    assert 3 < metrics["receive_outage_s.max"] < 45, "its session, and not the default of one"
    assert "lag_drained_s" in metrics, "all of it was given to somebody in the end"
    assert metrics["lost_records"] == metrics["duplicated_records"] == 0


@pytest.mark.slow
def test_what_a_slow_member_of_a_share_group_keeps_for_too_long_goes_to_the_others_and_is_accepted_once(
    tmp_path: Path,
) -> None:
    row = "consumer-slow-share"
    done = gate(tmp_path, "-k", row, "--family", "failover", "--broker-warmup", "5", "--relations-only")
    _, metrics, _ = one_fault(done, row)
    assert metrics["redelivered_records"] > 0
    assert metrics["late_accepts_records"] > 0, "others had accepted them by then"
    assert metrics["given_after_accepted_records"] == metrics["unaccepted_records"] == 0
    assert metrics["lost_records"] == metrics["duplicated_records"] == 0
