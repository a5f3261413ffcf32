"""On real brokers: what a change does is seen, what does nothing is not called a difference."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import psutil
import pytest

from perfgate.host.machine_use import CGROUPS
from perfgate.model import ClusterSpec
from perfgate.report.html import build_report
from perfgate.report.recorded_pairs import command as record
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from tests.harness.browser import NEEDS_CHROMIUM, browser, page, see_picture
from tests.harness.build.recorded import SCHEMA
from tests.harness.called import called
from tests.harness.run_gate import PROBES, ROOT, Finished, gate

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "page"]
GENEROUS = "6m"
"""For what is decided: it ends as soon as it is, after 5 units on a quiet machine and more on a noisy one."""
SHORT = ("-k", "capped-plain", "--broker-warmup", "10", "--warmup-max", "1", "--window", "1")


def compare(folder: Path, change: str, budget: str, *arguments: str) -> Finished:
    path = folder / "change.toml"
    path.write_text(change)
    return gate(folder / "results", PROBES, *SHORT, f"--compare={path}", "--budget", budget, *arguments)


@pytest.mark.slow
def test_a_change_by_commands_is_applied_between_rounds_and_reverted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that uses a whole core, as a change: brokers and load have less."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    done, pid = tmp_path / "done", tmp_path / "pid"
    spin = "import os; [None for _ in iter(int, 1)]"
    apply = f"echo apply >> {done}; {sys.executable} -c '{spin}' & echo $! > {pid}"
    revert = f"echo revert >> {done}; kill $(cat {pid}) && rm {pid}"
    change = f'name = "a busy neighbour"\n[commands]\napply = """{apply}"""\nrevert = """{revert}"""\n'
    compared = compare(tmp_path, change, "3m", "--allow-commands")
    (found,) = compared.run["comparisons"]
    assert (found["method"], found["verdict"] in ("SLOWER", "INCONCLUSIVE")) == ("rounds", True), compared.output
    assert found["estimate"] < 0
    steps = done.read_text().split()
    assert steps == ["apply", "revert"] * (len(steps) // 2), "in turn, and reverted in the end"
    assert len(steps) >= 4, "once before anything is measured"
    assert not pid.exists()
    assert not list((tmp_path / "state").rglob("*.json"))
    (run,) = (tmp_path / "results").glob("2*")
    assert (run / "commands.log").read_text().count(" apply: ") == len(steps) // 2
    assert set(compared.run["change"]["commands"]) == {"apply", "revert"}


@pytest.mark.slow
def test_brokers_that_do_not_start_with_the_change_are_a_reason_not_to_apply_it(tmp_path: Path) -> None:
    """It was INVALID: "Do not decide yet"."""
    done = compare(tmp_path, 'name = "a slip"\n[cluster]\njvm = ["-XX:+NoSuchOption"]\n', "3m")
    (found,) = done.run["comparisons"]
    assert (done.code, found["verdict"]) == (1, "BROKEN"), done.output
    assert "Unrecognized VM option" in done.output
    assert "Do not apply 'a slip'" in done.output


@pytest.fixture(scope="module")
def fsync(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """Every record is written through to the disk: many times slower wherever there is one."""
    change = 'name = "fsync each"\n[topic]\n"flush.messages" = 1\n[producer]\n"linger.ms" = 0\n'
    return compare(tmp_path_factory.mktemp("fsync"), change, GENEROUS)


@pytest.mark.slow
def test_a_change_that_costs_much_is_slower_and_red(fsync: Finished) -> None:
    assert fsync.code == 1, fsync.output
    (found,) = fsync.run["comparisons"]
    assert (found["scenario"], found["verdict"], found["metric"]) == ("capped-plain", "SLOWER", "records_per_s")
    assert found["method"] == "turns"
    assert found["interval"][1] < 0
    assert "SLOWER capped-plain with 'fsync each'" in fsync.output
    assert "Do not apply 'fsync each' as it is" in fsync.output
    assert "RED: scenarios 1 SLOWER" in fsync.output
    assert fsync.run["change"]["topic"] == {"flush.messages": "1"}


@pytest.mark.slow
@NEEDS_CHROMIUM
def test_its_report_shows_the_effect(page: "Page", fsync: Finished) -> None:
    (found,) = fsync.run["comparisons"]
    (run,) = fsync.results.glob("2*")
    report = build_report(run)
    page.goto(report.as_uri())
    page.get_by_text("RED").first.wait_for()
    page.get_by_role("link", name="capped-plain", exact=True).first.click()
    page.get_by_text(f"{found['estimate'] * 100:+.1f} %").first.wait_for()
    see_picture(page, "capped-plain-paired-rounds.png")


@pytest.mark.slow
def test_both_sides_account_for_every_record(fsync: Finished) -> None:
    (found,) = fsync.run["comparisons"]
    for side in ("baseline", "candidate"):
        for entry in found[side]["rounds"]:
            accounting = entry["accounting"]
            assert all(flaw["metrics"] for flaw in entry["flaws"])
            # What slow brokers have not taken by the gap's end is withdrawn: it never left, so it is in no log.
            assert accounting["attempted"] == accounting["acked"] + accounting["withdrawn"]
            assert accounting["acked"] == accounting["offset_delta"] > 0
    assert set("".join(found["orders"])) == {"A", "B"}
    mirrored = str.maketrans("AB", "BA")
    assert all(b == a.translate(mirrored) for a, b in zip(found["orders"][::2], found["orders"][1::2], strict=False))


@pytest.mark.slow
def test_the_run_keeps_to_the_schema_and_replays_to_the_same_verdict(fsync: Finished, tmp_path: Path) -> None:
    jsonschema.validate(fsync.run, SCHEMA, format_checker=jsonschema.FormatChecker())
    (recorded,) = fsync.results.glob("2*/run.json")
    again = gate(tmp_path, PROBES, "-k", "capped-plain", f"--replay={recorded}")
    assert again.code == 1, again.output
    (first,), (second,) = fsync.run["comparisons"], again.run["comparisons"]
    assert [second[key] for key in ("verdict", "estimate", "interval", "pairs")] == [
        first[key] for key in ("verdict", "estimate", "interval", "pairs")
    ]


@pytest.mark.slow
def test_the_report_has_the_comparison_with_its_picture(fsync: Finished) -> None:
    result = fsync.allure["capped-plain"]
    assert result["status"] == "failed"
    assert result["name"].startswith("capped-plain: SLOWER, -")
    assert "95 % interval" in result["descriptionHtml"]
    assert {"capped-plain-paired-rounds.png", "comparison", "verdict"} <= {a["name"] for a in result["attachments"]}


@pytest.mark.slow
def test_no_change_is_no_difference(tmp_path: Path) -> None:
    done = compare(tmp_path, 'name = "nothing"\n', "3m")  # a slow machine needs them; it ends as soon as it is decided
    assert done.code in (0, 6), done.output
    (found,) = done.run["comparisons"]
    assert found["verdict"] in ("SAME", "INCONCLUSIVE")
    assert found["units"] >= 4


@pytest.mark.slow
def test_what_brokers_take_at_their_start_is_compared_on_pairs_of_clusters(
    tmp_path: Path, own_temporary_files: Path
) -> None:
    done = compare(tmp_path, 'name = "100 queued"\n[broker]\n"queued.max.requests" = 100\n', "20s")
    assert done.code in (0, 1, 6), done.output
    (found,) = done.run["comparisons"]
    assert found["method"] == "pairs"
    assert found["units"] >= 1
    assert len(found["orders"][0].split()) * 2 == len(found["orders"][0].replace(" ", "")) // 2, "bursts of four turns"
    assert [cluster["scenarios"] for cluster in done.run["target"]["clusters"][:2]] in (
        [["capped-plain"], ["capped-plain-candidate"]],
        [["capped-plain-candidate"], ["capped-plain"]],
    )
    assert found["verdict"] != "INVALID", found["reasons"]
    assert dict(found["candidate"]["declared"]["cluster"]["config"]) == {"queued.max.requests": "100"}
    assert found["baseline"]["declared"]["cluster"]["config"] == {}
    alive = (" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"]))
    assert not [line for line in alive if "kafka.Kafka" in line and str(own_temporary_files) in line]


def test_what_brokers_change_while_they_run_is_compared_on_the_same_ones(tmp_path: Path) -> None:
    """From 8 threads to 1 in steps that Kafka takes, and back again, at each turn."""
    done = compare(tmp_path, 'name = "1 io"\n[broker]\n"num.io.threads" = 1\n', "30s")
    assert done.code in (0, 1, 6), done.output
    assert "num.io.threads: changed while the brokers run, within " in done.output
    (found,) = done.run["comparisons"]
    assert (found["method"], found["verdict"] != "INVALID") == ("turns", True), found["reasons"]
    assert found["units"] >= 1, "brokers that still compile are waited for within the budget"
    assert dict(found["candidate"]["declared"]["cluster"]["config"]) == {"num.io.threads": "1"}
    assert len(done.run["target"]["clusters"]) == 1


@pytest.mark.slow
def test_rows_with_consumers_alternate_by_whole_rounds(tmp_path: Path) -> None:
    path = tmp_path / "change.toml"
    path.write_text('name = "fetch 1 KiB"\n[consumer]\n"fetch.min.bytes" = 1024\n')
    rows = ("-k", "capped-by-four or capped-plain", *SHORT[2:])
    done = gate(tmp_path / "results", PROBES, *rows, f"--compare={path}", "--budget", "40s")
    assert done.code in (0, 1, 6), done.output
    (found,) = done.run["comparisons"]
    assert (found["scenario"], found["method"], found["rounds_per_unit"]) == ("capped-by-four", "rounds", 1)
    assert found["verdict"] != "INVALID", found["reasons"]
    assert len(found["baseline"]["rounds"]) == len(found["candidate"]["rounds"]) == len(found["orders"]) > 0
    assert found["candidate"]["declared"]["consumers"]["config"]["fetch.min.bytes"] == "1024"
    (absent,) = done.run["not_run"]
    assert absent == {"name": "capped-plain", "reason": "the change concerns consumers, and this scenario has none"}


def test_a_cpu_quota_and_jvm_options_reach_the_brokers_and_leave_nothing(tmp_path: Path) -> None:
    groups = set(CGROUPS.glob("**/kafka-perf-gate-*"))
    spec = ClusterSpec(brokers=1, cpus_per_broker=0.5, jvm_options=("-Dkafka.perf.gate=1",))
    target = EmbeddedTarget(log_folder=tmp_path, cross_zone=False, say=print)
    target.prepare([spec])
    try:
        (pid,) = target.cluster(spec).broker_pids().values()
        process = psutil.Process(pid)
        assert "-Dkafka.perf.gate=1" in process.cmdline()
        (made,) = set(CGROUPS.glob("**/kafka-perf-gate-*")) - groups
        assert str(pid) in (made / "cgroup.procs").read_text().split()
    finally:
        target.close()
    assert set(CGROUPS.glob("**/kafka-perf-gate-*")) == groups
    assert not psutil.pid_exists(pid)


def test_brokers_that_refuse_the_change_are_one_error(tmp_path: Path) -> None:
    done = compare(tmp_path, 'name = "x"\n[broker]\n"num.io.threads" = -3\n', "60s")
    assert done.code == 2, done.output
    assert "num.io.threads" in done.output
    assert "Traceback" not in done.output


@pytest.mark.slow
def test_nothing_on_pairs_of_clusters_is_measured_recorded_and_made_use_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = tmp_path / "thresholds"
    limits.mkdir()
    (limits / "relations.toml").write_text((ROOT / "perfgate" / "catalogue" / "relations.toml").read_text())
    stored = "records_per_s = { rounds_per_unit = 6, window_s = 1.0, effects = [0.05, -0.05, 0.04, -0.06, 0.05] }"
    (limits / "mine.toml").write_text(f'[profile]\ntarget = "embedded"\n[pairs.capped-plain]\n{stored}\n')
    nothing = (ROOT / "changes" / "nothing-on-pairs.toml").read_text()
    done = compare(tmp_path, nothing, "20s", f"--thresholds={limits}")
    assert done.code in (0, 6), done.output
    (found,) = done.run["comparisons"]
    assert (found["method"], found["rounds_per_unit"]) == ("pairs", 6)
    assert found["units"] >= 1
    assert found["baseline"]["declared"]["cluster"] == found["candidate"]["declared"]["cluster"]
    assert len(done.run["target"]["clusters"]) == 2 * found["units"]
    assert [one["metric"] for one in found["recorded"]] == ["records_per_s"]
    assert called(record, f"--results={tmp_path / 'results'}", f"--thresholds={limits}") == 1
    assert "1 run(s): target embedded" in (said := capsys.readouterr().out)
    assert f"{found['units']} pairs, " in said
