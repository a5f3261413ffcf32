"""The catalogue: a family is one declaration, and a run lists what it declares."""

import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.catalogue.bases import PAPER, READING
from perfgate.catalogue.kafka import FAMILIES, SCENARIOS
from perfgate.fixtures.plan import expected_seconds
from perfgate.model import SAME_ZONE, TIER_NAMES, Change, ClusterSpec, FaultScenario, changed, parted, with_changes
from perfgate.model.catalogue import family
from perfgate.model.changes import LEGAL, PATHS, read_value
from perfgate.model.declared import LINKS
from perfgate.model.errors import ConfigurationError
from perfgate.model.usual import TIERS
from tests.harness.build import scenario
from tests.harness.forked import gate
from tests.harness.run_gate import ROOT

DECLARED = """
import pytest
from perfgate.fixtures.gate import Gate
from perfgate.model import KIB, Relation, Scenario
from perfgate.model.catalogue import family
from perfgate.catalogue.bases import PAPER

FAMILIES = (
    family(
        "record-size", "how many bytes a record has: fewer records per second, more bytes",
        base=PAPER, varies="record.bytes",
        nightly={"record-100b": 100, "record-1k": 1 * KIB, "record-4k": 4 * KIB, "record-10k": 10 * KIB},
    ),
)


@pytest.mark.parametrize("scenario", FAMILIES[0].scenarios, ids=repr)
def test_scenario(scenario: Scenario, gate: Gate) -> None:
    gate.hold(gate.measure(scenario))
"""


def test_a_family_of_four_is_one_declaration_and_is_listed(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(DECLARED)
    done = gate(
        tmp_path / "results",
        "-o",
        "kafka_perf_gate=true",
        "--list-scenarios",
        "--tier=nightly",
        str(tmp_path / "test_mine.py"),
        f"--thresholds={ROOT / 'thresholds'}",
    )
    assert done.code == 0, done.output
    for name, size in (("record-100b", 100), ("record-1k", 1024), ("record-4k", 4096), ("record-10k", 10_240)):
        assert f"  {name}" in done.output
        assert f"record.bytes {size}" in done.output


def test_the_names_of_the_catalogue_stay() -> None:
    """They are threshold keys, pytest ids, and lines in people's history."""
    assert {"acks", "batch-size", "cross-az", "failover", "latency", "replicas"} <= {one.name for one in FAMILIES}
    smoke = [row.name for row in SCENARIOS if row.tier == "smoke"]
    assert smoke == ["acks-all", "batch-1k", "batch-16k", "cross-az", "replicas-3", "paced-500", "consume-1"]
    assert sum(isinstance(row, FaultScenario) for row in SCENARIOS) == 44
    assert len({row.name for row in SCENARIOS}) == len(SCENARIOS)


def test_a_link_may_leave_one_broker_in_the_clients_zone() -> None:
    link = LINKS["cross-zone-but-broker-1"]
    assert [link.added_to(broker) for broker in (1, 2, 3)] == [0, 2, 2]
    assert link.crosses_zones
    assert [LINKS["cross-zone"].added_to(broker) for broker in (1, 2, 3)] == [1, 1, 1]


@pytest.mark.parametrize("path", PATHS)
def test_every_path_changes_what_it_names_and_nothing_else(path: str) -> None:
    value = {
        "link": "cross-zone",
        "client.version": "2.11.0",
        "cluster.version": "3.9.1",
        "cluster.image": "mine:1",
        "cluster.home": "/builds/kafka",
        "cluster.jvm": ["-Xmx1g"],
        "cluster.security": "tls",
        "record.payload": "text:2",
        "record.sizes": "values:70=1",
        "load.shape": "constant:rate=7,seconds=7",
        "consumers.membership": "group",
        "beside": "none",
        "consumers.work-sigma": 1,
        "consumers.work-per": "batch",
        "consumers.pauses": "true",
    }.get(path, 7)
    base = replace(PAPER, cluster=ClusterSpec(system=PATHS[path].only or "kafka"))
    after = with_changes(base, [(path, value)])
    of_other_loads = ("load.records", "load.level-p99-ms", "load.shape")
    none_there = path.startswith(("consumers.", "beside", "crowd.")) or path in of_other_loads
    assert (after == base) is none_there
    again = with_changes(after, [(path, value)])
    assert again == after
    assert after.producer == base.producer


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("record.size", 5, "unknown path 'record.size'; legal: record.bytes, record.payload"),
        ("producer.", 5, "unknown path 'producer.'"),
        ("record.bytes", 0, "must be a whole number from 1"),
        ("record.bytes", 1.5, "must be a whole number"),
        ("record.bytes", True, "must be a whole number"),
        ("record.bytes", float("nan"), "must be a whole number"),
        ("record.bytes", float("inf"), "must be a whole number"),
        ("load.rate", "fast", "must be a number of records/s"),
        ("load.rate", float("nan"), "must be a number of records/s"),
        ("producers.transaction.ms", -1, "must be a number of ms from 0 to 30000"),
        ("producers.transaction.ms", float("nan"), "must be a number of ms"),
        ("producers.transaction.s", 1, "unknown path 'producers.transaction.s'; legal: record.bytes"),
        ("link", "far", "is no link; legal: same-zone, cross-zone"),
        ("cluster.jvm", "Xmx1g", "must be a list of texts"),
        ("producer.linger.ms", [5], "must be a text, a number, true or false"),
    ],
)
def test_a_slip_names_the_path_and_what_is_legal(path: str, value: object, words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_value(path, value)
    assert words in str(error.value)


@given(st.text(), st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.lists(st.text())))
def test_whatever_is_written_is_read_or_refused(path: str, value: object) -> None:
    for one in (path, *LEGAL):
        with suppress(ConfigurationError):
            read_value(one, value)


def test_a_change_is_laid_on_in_its_order() -> None:
    found = with_changes(scenario(), [("cluster.image", "mine:1"), ("cluster.version", "3.9.1")])
    assert (found.cluster.version, found.cluster.image) == ("3.9.1", "")
    found = with_changes(scenario(), [("cluster.version", "3.9.1"), ("cluster.image", "mine:1")])
    assert (found.cluster.version, found.cluster.image) == ("3.9.1", "mine:1")


def test_no_change_is_the_scenario_itself() -> None:
    for one in SCENARIOS:
        assert changed(one, Change(name="nothing")) is one


def test_a_family_with_a_slip_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown path 'batch\.size'"):
        family("x", "x", base=PAPER, varies="batch.size", smoke={"x-1": 1})
    assert PAPER.link == SAME_ZONE


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"varies": "consumers.threads"}, "consumers.threads changes nothing of its base, white-paper: it has no cons"),
        ({"varies": "consumer.fetch.min.bytes"}, "consumer.fetch.min.bytes changes nothing of its base"),
        ({"varies": "load.records"}, "its load is capped, not backlog"),
        ({"varies": "load.level-p99-ms"}, "its load is capped, not ramp"),
        ({"varies": "load.rate", "base": READING}, "it reads what is there, at no rate of its own"),
        ({"varies": "load.rate", "says": {"x1": "one"}}, "family x: says names 'x1', no scenario of it; legal: x-1"),
        ({"varies": "load.rate", "refused": {"y": "no"}}, "family x: refused names 'y', no scenario of it; legal: x-1"),
    ],
)
def test_what_a_family_says_of_nothing_is_refused(given: dict[str, Any], words: str) -> None:
    """Scenarios that all were the same load, and texts that nobody saw."""
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        family("x", "x", **{"base": PAPER, "smoke": {"x-1": 5}, **given})


@pytest.mark.parametrize(("tier", "minutes"), [("smoke", 5), ("nightly", 108)])
def test_a_tier_keeps_its_budget(tier: str, minutes: float) -> None:
    """Beside faults and the long loads, by the estimate that a run prints: a whole nightly of 88 min by it took 78.

    Those of several topics, sizes, keys, shapes and restarting readers have 18 min more.
    """
    tiers = TIER_NAMES[: TIER_NAMES.index(tier) + 1]
    plain, _ = parted([row for one in FAMILIES for row in one.scenarios if row.tier in tiers])
    measured = [row for row in plain if row.load.kind != "ramp" and not row.name.startswith("endurance")]
    assert expected_seconds(measured, TIERS[tier]) <= 60 * minutes
