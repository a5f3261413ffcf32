"""Many families: scenarios measured twice, rates beyond a machine, caps and limits that bound a ratio or a load."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.catalogue.bases import END_TO_END, OVERLOAD
from perfgate.catalogue.kafka import FAMILIES
from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.scenario_case import judge_scenario, shows_nothing
from perfgate.model import Load, Measurement, TopicSpec, Verdict, settings
from perfgate.model.catalogue import family
from perfgate.model.errors import ConfigurationError
from perfgate.systems.attached.target_file import Limits
from perfgate.systems.kafka.attached.limits import beyond
from tests.harness.build import measurement, profile, relation, scenario, threshold
from tests.harness.build.knee import RAMP
from tests.harness.forked import gate
from tests.harness.run_gate import ROOT

RECORDED = ROOT / "tests" / "harness" / "data" / "run.json"


@pytest.mark.parametrize("selected", [(), ("-k", "cross-az and not cross-az-rate and not cross-az-cpu")])
def test_brokers_that_fail_at_a_second_measurement_are_red(tmp_path: Path, selected: tuple[str, ...]) -> None:
    """Whether a relation is judged on it or not."""
    document: dict[str, Any] = json.loads(RECORDED.read_text())
    (entry,) = (json.loads(json.dumps(one)) for one in document["scenarios"] if one["name"] == "batch-1k")
    lost = "records unaccounted: 100 acknowledged, but the partitions' end offsets moved by 99 (-1)"
    entry["rounds"][1].update(invalid=[lost], broken=[lost])
    (tmp_path / "run.json").write_text(json.dumps({**document, "baselines": [{**entry, "beside": "cross-az"}]}))
    done = gate(tmp_path / "results", f"--replay={tmp_path / 'run.json'}", *selected)
    assert "BROKEN batch-1k, measured once more beside cross-az: round 2: records unaccounted" in done.output
    assert done.code == 1, done.output


def capped(rates: list[float], name: str, cap: float) -> Measurement:
    """Return rounds of these rates under this cap."""
    found = measurement(rates, name)
    return replace(found, scenario=replace(found.scenario, load=Load(kind="capped", rate=cap)))


@pytest.mark.parametrize(
    ("fast", "cap", "verdict"),
    [(1000, 1000, Verdict.INCONCLUSIVE), (985, 1000, Verdict.INCONCLUSIVE), (1000, 2000, Verdict.REGRESSED)],
)
def test_a_ratio_that_a_cap_bounds_is_not_red(fast: float, cap: float, verdict: Verdict) -> None:
    held = {"fast": capped([fast] * 5, "fast", cap), "slow": capped([990.0] * 5, "slow", 1000)}
    outcome = judge_relation(relation(2.0), held)
    assert outcome.verdict is verdict
    assert ("reached its cap" in str(outcome.reasons)) == (verdict is Verdict.INCONCLUSIVE)


def timed(name: str, rate: float, p99_ms: float) -> Measurement:
    """Return rounds of a load with a cap of 1,000 records/s that are alike."""
    found = capped([rate] * 5, name, 1000)
    rounds = tuple(replace(r, metrics={**r.metrics, "latency_ms.p99": p99_ms}) for r in found.rounds)
    return replace(found, rounds=rounds)


@pytest.mark.parametrize(("rate", "verdict"), [(1000, Verdict.INCONCLUSIVE), (800, Verdict.REGRESSED)])
def test_a_wait_that_a_cap_keeps_short_is_not_red(rate: float, verdict: Verdict) -> None:
    """A target file's limits lower the caps of loads: rate-unlimited waits for nothing then."""
    held = {"fast": timed("fast", rate, 10.0), "slow": timed("slow", 900.0, 10.0)}
    assert judge_relation(relation(3.0, "latency_ms.p99"), held).verdict is verdict


def test_the_slower_side_of_a_ratio_excuses_nothing() -> None:
    held = {"fast": capped([500.0] * 5, "fast", 2000), "slow": capped([1000.0] * 5, "slow", 1000)}
    assert judge_relation(relation(2.0), held).verdict is Verdict.REGRESSED


SHORT = "not sustained: the brokers took 9,000 of 10,000 records/s"
HELD = profile(threshold("latency_ms.p99", 4.0, 0.5), threshold("broker_cpu_us_per_record", 50.0))


@pytest.mark.parametrize(
    ("probes", "held", "verdict"),
    [(True, None, Verdict.MISSING), (True, HELD, Verdict.REGRESSED), (False, None, Verdict.REGRESSED)],
)
def test_a_rate_beyond_an_unknown_machine_is_a_figure(probes: bool, held: Any, verdict: Verdict) -> None:
    found = measurement([9000.0] * 5)
    row = replace(found.scenario, load=Load(kind="paced", rate=10_000, probes=probes))
    short = replace(found, scenario=row, rounds=tuple(replace(r, not_sustained=SHORT) for r in found.rounds))
    assert judge_scenario(short, held).verdict is verdict
    assert bool(shows_nothing(short)) is probes, "no relation of it says anything"
    assert not shows_nothing(replace(short, rounds=found.rounds))


@pytest.mark.parametrize(
    ("shares", "silent"), [((0.0, 0.0), True), ((0.0, 0.1), False), ((0.5, 0.5), False), ((), False)]
)
def test_an_overload_that_was_none_says_nothing(shares: tuple[float, ...], silent: bool) -> None:
    found = measurement([9000.0] * 2)
    load = Load(kind="paced", rate=9_000, times_out=True)
    rounds = tuple(
        replace(one, metrics={**one.metrics, "timed_out_share": share} if shares else one.metrics)
        for one, share in zip(found.rounds, shares or (0.0, 0.0), strict=True)
    )
    over = replace(found, scenario=replace(found.scenario, load=load), rounds=rounds)
    assert ("no record timed out" in shows_nothing(over)) is silent


def measured_apart(tmp_path: Path) -> Path:
    """Return the recorded run as if cross-az had been measured on another cluster than batch-1k."""
    document: dict[str, Any] = json.loads(RECORDED.read_text())
    names = [one["name"] for one in document["scenarios"]]
    blocks = [[name for name in names if name != "cross-az"], ["cross-az"]]
    clusters = [{"scenarios": one, "second_look": False} for one in blocks]
    document["target"] = {**document["target"], "clusters": clusters}
    (tmp_path / "run.json").write_text(json.dumps(document))
    return tmp_path / "run.json"


def test_a_run_that_did_not_measure_two_side_by_side_holds_no_relation_of_them(tmp_path: Path) -> None:
    done = gate(tmp_path / "results", f"--replay={measured_apart(tmp_path)}", "-k", "cross-az or replicas or batch-1k")
    assert "did not measure batch-1k, cross-az side by side" in done.output
    assert "PASS" in done.output, "the others are held"


def test_the_rates_of_the_catalogue_that_are_beyond_some_machines_say_so() -> None:
    (rates,) = (one.scenarios for one in FAMILIES if one.name == "rate-limit")
    assert all(row.load.probes for row in rates if row.load.kind == "paced")
    assert not END_TO_END.load.probes


def test_a_relation_of_scenarios_that_there_are_not_is_refused(tmp_path: Path) -> None:
    own = ROOT / "examples" / "own-scenarios"
    (tmp_path / "families.py").write_text((own / "families.py").read_text())
    text = (own / "relations.toml").read_text()
    (tmp_path / "relations.toml").write_text(text.replace('of = "', 'of = "misspelt-', 1))
    done = gate(tmp_path / "results", f"--scenarios={tmp_path}", "--list-scenarios")
    assert done.code == 2
    assert "compares misspelt-" in done.output
    assert "declared nowhere" in done.output


@pytest.mark.parametrize("name", ["orders_small", "Orders", "orders--small", "-orders", "", "a/b"])
def test_a_scenario_name_that_no_file_or_key_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="small letters, digits and single dashes"):
        family("own", "of one's own", base=scenario(), varies="record.bytes", smoke={name: 100})


LIMITS = Limits(total_bytes=1e12, bytes_per_s=1e9)


def with_topic(**config: object) -> Any:
    """Return a scenario whose topic has these settings."""
    stated = {name.replace("_", "."): value for name, value in config.items()}
    return replace(scenario(), topic=replace(scenario().topic, config=settings(stated)))


@pytest.mark.parametrize(
    ("row", "limits", "words"),
    [
        (replace(scenario(), topic=TopicSpec(partitions=1000, replication_factor=1)), LIMITS, "1,000 partitions"),
        (replace(scenario(), topic=TopicSpec(partitions=150, replication_factor=3)), LIMITS, "450 partitions"),
        (replace(scenario(), topic=TopicSpec(partitions=100, replication_factor=3)), LIMITS, ""),
        (
            replace(scenario(), topic=TopicSpec(partitions=1000, replication_factor=1)),
            replace(LIMITS, partitions=1000),
            "",
        ),
        (replace(RAMP, consumers=END_TO_END.consumers), LIMITS, ""),
        (replace(RAMP, consumers=END_TO_END.consumers), replace(LIMITS, read_bytes_per_s=1e6), "reads as fast as"),
        (RAMP, replace(LIMITS, read_bytes_per_s=1e6), ""),
        (OVERLOAD, LIMITS, "time-outs = true"),
        (OVERLOAD, replace(LIMITS, time_outs=True), ""),
        (OVERLOAD, replace(LIMITS, time_outs=True, bytes_per_s=1e6), "it offers 23.8 MiB/s with its replicas"),
        (replace(scenario(), transaction_ms=100), LIMITS, "[limits] transactions = true"),
        (replace(scenario(), transaction_ms=100), replace(LIMITS, transactions=True), ""),
        # A topic that could not be deleted was never empty, whatever docs/safety.md said.
        (with_topic(retention_ms=-1), LIMITS, "may keep what it holds for 8 h at the most: retention.ms"),
        (with_topic(retention_ms=0), LIMITS, "retention.ms"),
        (with_topic(retention_ms=28_800_001), LIMITS, "retention.ms"),
        (with_topic(retention_ms="a day"), LIMITS, "retention.ms"),
        (with_topic(retention_ms=28_800_000), LIMITS, ""),
        (with_topic(cleanup_policy="compact"), LIMITS, "its cleanup.policy is without delete"),
        (with_topic(cleanup_policy=""), LIMITS, "its cleanup.policy is without delete"),
        (with_topic(cleanup_policy="compact, delete"), LIMITS, ""),
    ],
)
def test_real_brokers_are_spared_what_their_file_does_not_allow(row: Any, limits: Limits, words: str) -> None:
    found = beyond(limits, row) or ""
    assert words in found
    assert bool(found) == bool(words)
