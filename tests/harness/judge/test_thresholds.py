"""Threshold files: what is shipped is sound, and every slip of the pen is an error that names file, table and key."""

from dataclasses import replace
from pathlib import Path

import pytest

from perfgate.catalogue import pulsar
from perfgate.catalogue.kafka import FAMILIES as CATALOGUE
from perfgate.catalogue.kafka import SCENARIOS
from perfgate.fixtures.options import stored_profiles
from perfgate.judge.bounds_files import load_relations
from perfgate.judge.claims.threshold import required
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.thresholds import (
    all_but_one,
    load_profile,
    load_profiles,
    match_profile,
    named_profile,
    profile_facts,
    published_of,
)
from perfgate.model import CROSS_ZONE, SAME_ZONE, PairRelation, Profile, RangeRelation, Scenario, Verdict, parted
from perfgate.model.errors import ConfigurationError
from perfgate.model.usual import DRIVERS
from perfgate.report.proposal import suggested_name
from perfgate.systems.kafka.attached.external import ExternalTarget
from perfgate.systems.kafka.managed.containers import ContainersTarget
from perfgate.systems.kafka.managed.embedded import EmbeddedTarget
from tests.harness import build

ROOT = Path(__file__).parents[3]
STORED, SHIPPED = ROOT / "thresholds", ROOT / "perfgate" / "catalogue"
FAMILIES = {one.name: one.scenarios for one in CATALOGUE if one.name in ("acks", "batch-size", "cross-az", "replicas")}
"""Those of the white paper."""
ROWS: dict[str, Scenario] = {row.name: row for rows in FAMILIES.values() for row in rows if row.tier == "smoke"}
GOOD = """
[profile]
target = "embedded"
cores = 2
[batch-1k]
records_per_s = { baseline = 1000, tolerance = 0.1 }
"""


def test_every_shipped_profile_holds_every_white_paper_row_or_faults_alone() -> None:
    profiles = {name: one for name, one in stored_profiles(STORED).items() if not one.reference}
    assert set(profiles) == {"dms-c6-large-2", "embedded-2c-amd-epyc"}
    paper = profiles["dms-c6-large-2"].thresholds
    assert set(paper) == set(ROWS)
    for name, thresholds in paper.items():
        held = {threshold.metric.name for threshold in thresholds}
        assert all(held.intersection(group) for group in required(ROWS[name]))
    faults = profiles["embedded-2c-amd-epyc"].thresholds
    assert set(faults) <= {row.name for row in parted(SCENARIOS)[1]}
    assert all("outage_s.max" in {one.metric.name for one in held} for held in faults.values())


def test_every_shipped_profile_is_one_that_a_run_can_match() -> None:
    for profile in (one for one in stored_profiles(STORED).values() if not one.reference):
        target = {"kind": profile.facts["target"], "name": profile.facts.get("cluster", ""), "kafka_version": "4.3.1"}
        environment = {key: profile.facts.get(key, "") for key in ("cores", "cpu_model")}
        facts = profile_facts(target, environment, {"name": profile.facts.get("tier", "smoke")}, DRIVERS["kafka"][0])
        assert match_profile({profile.name: profile}, facts) is profile
        assert target["kind"] in (EmbeddedTarget.kind, ContainersTarget.kind, ExternalTarget.kind)


def test_a_reference_is_matched_by_no_run_and_held_when_it_is_named() -> None:
    profiles = stored_profiles(STORED)
    references = {name: one for name, one in profiles.items() if one.reference}
    assert set(references) == {
        "published-benchmark",
        "published-high-availability",
        "published-stress-test",
        "published-pulsar",
    }
    for kind in ("embedded", "containers", "brokers"):
        target = {"kind": kind, "name": "any", "kafka_version": "0.10.2"}
        facts = profile_facts(target, {"cores": 2, "cpu_model": "any"}, {"name": "full"}, DRIVERS["kafka"][0])
        assert match_profile(references, facts) is None
        assert all_but_one(references, facts) == []
    named = named_profile(profiles, "published-high-availability")
    held = {"rate-5k", "rate-10k", "rate-26k-12", "rate-unlimited"}
    assert set(named.thresholds) == held, "what was not taken there holds nothing"


@pytest.mark.parametrize(
    ("rate", "held", "verdict"),
    [
        (1000.0, True, Verdict.PASS),
        (1400.0, True, Verdict.IMPROVED),
        (800.0, True, Verdict.REGRESSED),
        (1000.0, False, Verdict.MISSING),
    ],
)
def test_a_named_reference_holds_what_it_publishes_and_no_more(rate: float, held: bool, verdict: Verdict) -> None:
    """No table has the CPU of brokers, and of a faster machine a gain is none that has to be explained."""
    figures = (build.threshold("records_per_s", 1000.0),) if held else ()
    published = replace(build.profile(*figures), reference=True)
    assert judge_scenario(build.measurement([rate] * 5), published).verdict is verdict


def test_published_figures_are_of_scenarios_and_metrics_that_there_are_and_say_what_differs() -> None:
    of_system = {
        system: {row.name: row for row in scenarios}
        for system, scenarios in (("kafka", SCENARIOS), ("pulsar", pulsar.SCENARIOS))
    }
    for profile in stored_profiles(STORED).values():
        rows = of_system[profile.system]
        assert profile.published.keys() <= rows.keys()
        for name, figures in profile.published.items():
            held = {threshold.metric.name for threshold in profile.thresholds.get(name, ())}
            assert {figure.metric for figure in figures if not figure.differs} == held
            for figure in (one for one in figures if one.metric == "records_per_s" and not one.differs):
                assert figure.value <= rows[name].load.rate, "its cap keeps the scenario from that rate"


def test_a_figure_is_looked_up_by_its_scenario_but_not_beside_its_own_profile() -> None:
    profiles = {name: one for name, one in stored_profiles(STORED).items() if one.system == "kafka"}
    rate, latency = published_of(profiles, "partitions-1", None)
    assert (rate.metric, rate.value, rate.differs) == ("records_per_s", 102_760, "")
    assert "E5-2640v2" in rate.hardware
    assert (latency.metric, latency.value) == ("latency_ms.avg", 297.65)
    assert [one.profile for one in published_of(profiles, "batch-16k", None)] == ["dms-c6-large-2"] * 2
    assert published_of(profiles, "batch-16k", profiles["dms-c6-large-2"]) == ()
    assert published_of(profiles, "paced-500", None) == ()


REFERENCE = """
[profile]
reference = true
hardware = "one large machine"
[batch-1k]
records_per_s = { baseline = 1000, tolerance = 0.1 }
"latency_ms.p99" = { baseline = 5, differs = "without acks" }
"""


def test_a_figure_that_differs_is_shown_and_holds_nothing(tmp_path: Path) -> None:
    found = load_profile(write(tmp_path, REFERENCE))
    assert [threshold.metric.name for threshold in found.thresholds["batch-1k"]] == ["records_per_s"]
    assert [figure.differs for figure in found.published["batch-1k"]] == ["", "without acks"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('hardware = "one large machine"\n', ""), ["[profile] is a reference and lacks the key 'hardware'"]),
        (
            ("reference = true", "reference = true\ncores = 8"),
            ["is a reference, which no run matches: leave cores out"],
        ),
        (("reference = true", "reference = 1"), ["[profile] reference = 1 must be true or false"]),
        (("reference = true", 'target = "embedded"'), ["[batch-1k] latency_ms.p99 has differs", "a reference alone"]),
        (("reference = true\n", ""), ["[profile] lacks the key 'target'"]),
        (('"without acks"', '""'), ["[batch-1k] latency_ms.p99 differs = '' must be a text"]),
        (("differs = ", "tolerance = 0.1, differs = "), ["nothing is held against it: leave tolerance out"]),
        ((', differs = "without acks"', ""), ["[batch-1k] latency_ms.p99 lacks the key 'tolerance'"]),
    ],
)
def test_a_bad_reference_is_an_error_that_names_the_place(
    tmp_path: Path, change: tuple[str, str], words: list[str]
) -> None:
    assert change[0] in REFERENCE
    path = write(tmp_path, REFERENCE.replace(*change))
    with pytest.raises(ConfigurationError) as caught:
        load_profile(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_figures_of_one_real_cluster_are_not_held_against_another() -> None:
    def of(name: str) -> dict[str, str]:
        target = {"kind": "brokers", "name": name, "kafka_version": "4.3.1"}
        return profile_facts(target, {"cores": 2, "cpu_model": "AMD"}, {"name": "smoke"}, DRIVERS["kafka"][0])

    staging = Profile(name="staging", facts=of("staging"), thresholds={}, path="", canary={})
    assert match_profile({"staging": staging}, of("staging")) is staging
    assert match_profile({"staging": staging}, of("production")) is None
    assert suggested_name(of("Staging EU"), ()) == "brokers-staging-eu-2c-amd"


def test_every_shipped_relation_is_of_a_family_and_compares_rows_that_there_are() -> None:
    relations = load_relations(SHIPPED / "relations.toml")
    rows = {row.name: row for row in SCENARIOS}
    for relation in relations:
        assert set(relation.names) <= rows.keys()
        assert relation.family in {rows[name].families[0] for name in relation.names}


def test_the_rows_are_those_of_the_white_paper() -> None:
    table = {
        row.name: (
            row.topic.replication_factor,
            dict(row.producer)["acks"],
            dict(row.producer)["batch.size"],
            row.link,
        )
        for row in ROWS.values()
    }
    assert table == {
        "batch-1k": (1, "1", "1024", SAME_ZONE),
        "batch-16k": (1, "1", "16384", SAME_ZONE),
        "cross-az": (1, "1", "1024", CROSS_ZONE),
        "replicas-3": (3, "1", "1024", SAME_ZONE),
        "acks-all": (3, "-1", "1024", SAME_ZONE),
    }
    for row in ROWS.values():
        assert (row.topic.partitions, row.record_bytes, row.load.kind, row.load.rate) == (3, 1024, "capped", 102_400)
        assert dict(row.producer)["linger.ms"] == "0"
        assert dict(row.producer)["max.in.flight.requests.per.connection"] == "5"
        assert dict(row.producer)["queue.buffering.max.kbytes"] == str(32 * 1024)


def test_the_service_class_profile_has_the_papers_figures() -> None:
    thresholds = load_profile(STORED / "dms-c6-large-2.toml").thresholds
    paper = {
        "batch-1k": (34_128, (58.1, 56.7, 53.3)),
        "batch-16k": (102_399, (24.1, 25.0, 23.3)),
        "cross-az": (8_523, (17.2, 16.7, 18.8)),
        "acks-all": (3_981, (60.0, 55.2, 50.0)),
        "replicas-3": (14_468, (86.7, 80.6, 86.2)),
    }
    for name, (rate, percents) in paper.items():
        baselines = {threshold.metric.name: threshold.baseline for threshold in thresholds[name]}
        assert baselines["records_per_s"] == rate
        assert baselines["broker_cpu_cores.sum"] == pytest.approx(sum(percents) / 100 * 2, abs=0.001)


def write(folder: Path, text: str, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_good_profile_loads(tmp_path: Path) -> None:
    profile = load_profile(write(tmp_path, GOOD))
    assert profile.name == "mine"
    assert profile.facts == {"target": "embedded", "cores": "2"}
    (threshold,) = profile.thresholds["batch-1k"]
    assert (threshold.baseline, threshold.tolerance, threshold.limit) == (1000, 0.1, 900)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("baseline = 1000", "baseline = -1"), ["[batch-1k] records_per_s", "baseline = -1", "positive number"]),
        (("baseline = 1000", "baseline = nan"), ["baseline = nan", "positive number"]),
        (("baseline = 1000", "baseline = inf"), ["baseline = inf", "positive number"]),
        (("baseline = 1000", "baseline = '1000'"), ["baseline = '1000'", "positive number"]),
        (("baseline = 1000", "baseline = 2026-11-22"), ["baseline = ", "positive number"]),
        (("baseline = 1000", f"baseline = 1{'0' * 400}"), ["baseline = 1000", "positive number"]),
        (("tolerance = 0.1", "tolerance = 0.1, spread = -1"), ["spread = -1", "positive number, or 0"]),
        (("tolerance = 0.1", "tolerance = 0.1, spread = nan"), ["spread = nan", "positive number, or 0"]),
        (("tolerance = 0.1", "tolerance = 0.1, spread = false"), ["spread = False", "positive number, or 0"]),
        (("tolerance = 0.1", "tolerance = 0.1, spread = 0.1"), ["runs = 0 must be two or more where a spread stands"]),
        (("tolerance = 0.1", "tolerance = 0.1, runs = 2.0"), ["runs = 2.0", "a whole number up to 1000"]),
        (("tolerance = 0.1", "tolerance = 0.1, runs = true"), ["runs = True", "a whole number up to 1000"]),
        (("tolerance = 0.1", "tolerance = 0.1, runs = 1001"), ["runs = 1001", "a whole number up to 1000"]),
        (("tolerance = 0.1", "tolerance = 0.1, anchor = -1"), ["anchor = -1", "positive number"]),
        (("cores = 2", "cores = true"), ["[profile] cores = True", "whole number"]),
        (('"embedded"', '"brokers"'), ["[profile] of target brokers needs cluster"]),
        (("[batch-1k]", "[canary]\nloopback_per_s = inf\n[batch-1k]"), ["[canary] loopback_per_s = inf", "positive"]),
        (("[batch-1k]", "[canary]\nsha = 1\n[batch-1k]"), ["[canary] has unknown key 'sha'; legal: deflate_mib_per_s"]),
        (("baseline = 1000", "baseline = true"), ["baseline = True", "positive number"]),
        (("tolerance = 0.1", "tolerance = 0"), ["tolerance = 0", "positive number"]),
        (("tolerance = 0.1", "tolerance = 10"), ["tolerance = 10", "0.1 means 10 %"]),
        (("tolerance = 0.1", "tolerence = 0.1"), ["unknown key 'tolerence'", "legal: baseline, tolerance"]),
        ((", tolerance = 0.1", ""), ["[batch-1k] records_per_s", "lacks the key 'tolerance'"]),
        (("records_per_s", "record_per_s"), ["[batch-1k]", "unknown metric 'record_per_s'", "legal: records_per_s"]),
        (("{ baseline = 1000, tolerance = 0.1 }", "1000"), ["[batch-1k] records_per_s = 1000", "must be a table"]),
        (("[batch-1k]", "[Batch 1k]"), ["mine.toml"]),
        (("[batch-1k]", "[Batch_1k]"), ["[Batch_1k] is not a scenario name"]),
        (
            ("cores = 2", "cpus = 2"),
            ["[profile] has unknown key 'cpus'", "legal: description, reference, system, hardware"],
        ),
        (("cores = 2", "cores = 2.5"), ["[profile] cores = 2.5", "whole number"]),
        (('target = "embedded"\n', ""), ["[profile] lacks the key 'target'"]),
        (("[profile]", "[profil]"), ["table [profile] is missing"]),
        (("cores = 2", "cores = 2\ncores = 3"), ["mine.toml", "overwrite"]),
        (("[batch-1k]", "[batch-1k]\n[batch-1k]"), ["mine.toml"]),
        (("[batch-1k]", "[batch-1k"), ["mine.toml"]),
    ],
)
def test_a_bad_profile_is_an_error_that_names_the_place(
    tmp_path: Path, change: tuple[str, str], words: list[str]
) -> None:
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(ConfigurationError) as caught:
        load_profile(path)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


RELATION = """
[batch-size.rate]
claim = "larger is faster"
metric = "records_per_s"
of = "batch-16k"
over = "batch-1k"
at_least = 2.0
at_most = 9
source = "here"
valid = "any"
"""
SHARED = """
[batch-size.rate.shared_cores]
metric = "broker_cpu_us_per_record"
of = "batch-1k"
over = "batch-16k"
"""


def test_where_cores_are_shared_another_metric_can_be_held(tmp_path: Path) -> None:
    text = RELATION.replace('"any"', '"own-hosts"')
    (own,) = load_relations(write(tmp_path, text, "relations.toml"))
    assert own.here(shares_cores=True) is own
    assert "valid where brokers have hosts of their own" in str(own.cannot(shares_cores=True))
    assert own.cannot(shares_cores=False) is None
    (both,) = load_relations(write(tmp_path, text + SHARED, "relations.toml"))
    shared = both.here(shares_cores=True)
    assert both.here(shares_cores=False) is both
    assert isinstance(shared, PairRelation)
    assert (shared.name, shared.of, shared.over, shared.at_least) == ("batch-size-rate", "batch-1k", "batch-16k", 2.0)
    assert shared.metric.name == "broker_cpu_us_per_record"
    assert shared.cannot(shares_cores=True) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("at_least = 2.0", "at_least = -2"), ["[batch-size.rate] at_least = -2", "positive number"]),
        (("at_least = 2.0", "least = 2"), ["unknown key 'least'", "legal: claim, metric"]),
        (("at_most = 9", "at_most = 2"), ["[batch-size.rate] at_most = 2 must be above at_least = 2"]),
        (('of = "batch-16k"', 'of = "batch-1k"'), ["[batch-size.rate] of and over are one scenario, batch-1k"]),
        (("at_most = 9\n", ""), ["lacks the key 'at_most'"]),
        (('of = "batch-16k"\n', ""), ["lacks the key 'of'"]),
        (('of = "batch-16k"', "of = ''"), ["[batch-size.rate] of = '' must be a text"]),
        (("at_least = 2.0", "at_least = nan"), ["[batch-size.rate] at_least = nan", "positive number"]),
        (
            ('valid = "any"\n', 'valid = "any"\nshared_cores = { at_most = 1 }\n'),
            ["shared_cores] at_most = 1 must be above"],
        ),
        (('valid = "any"\n', 'valid = "any"\nshared_cores = { shared_cores = {} }\n'), ["unknown key 'shared_cores'"]),
        (('of = "batch-16k"', "of = 3"), ["[batch-size.rate] of = 3 must be a text"]),
        (('"records_per_s"', '"speed"'), ["unknown metric 'speed'"]),
        (("[batch-size.rate]", "[batch-size]"), ["batch-size.claim", "must be a table"]),
        (('valid = "any"\n', ""), ["[batch-size.rate] lacks the key 'valid'"]),
        (('"any"', '"here"'), ["[batch-size.rate] valid = 'here' is not legal; legal: any, own-hosts"]),
        (
            ('valid = "any"\n', 'valid = "any"\nshared_cores = 3\n'),
            ["batch-size.rate.shared_cores = 3 must be a table"],
        ),
        (
            ('valid = "any"\n', 'valid = "any"\nshared_cores = { valid = "any" }\n'),
            ["shared_cores] has unknown key 'valid'"],
        ),
    ],
)
def test_a_bad_relation_is_an_error_that_names_the_place(
    tmp_path: Path, change: tuple[str, str], words: list[str]
) -> None:
    path = write(tmp_path, RELATION.replace(*change), "relations.toml")
    with pytest.raises(ConfigurationError) as caught:
        load_relations(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_two_relations_of_one_name_are_refused(tmp_path: Path) -> None:
    """`[batch.size-rate]` was kept instead of `[batch-size.rate]`."""
    text = RELATION + RELATION.replace("[batch-size.rate]", "[batch.size-rate]")
    with pytest.raises(ConfigurationError, match=r"\[batch\.size-rate\] is a second relation batch-size-rate"):
        load_relations(write(tmp_path, text, "relations.toml"))


RANGE = """
[partitions.range]
claim = "up to the brokers, then flat"
metric = "records_per_s"
over = ["partitions-1", "partitions-3", "partitions-6", "partitions-50"]
rises_to = "partitions-3"
at_least = 1.2
step_at_least = 0.9
at_most = 6
flat_within = 0.5
source = "here"
valid = "own-hosts"
shared_cores = { at_least = 0.8, step_at_least = 0.8, flat_within = 1.0 }
"""


def test_a_range_is_read_with_what_is_held_where_cores_are_shared(tmp_path: Path) -> None:
    (found,) = load_relations(write(tmp_path, RANGE, "relations.toml"))
    assert isinstance(found, RangeRelation)
    assert (found.name, found.leg, found.flat) == (
        "partitions-range",
        ("partitions-1", "partitions-3"),
        ("partitions-6", "partitions-50"),
    )
    assert found.accepted == "rises, in all 1.2 .. 6, each step 0.9 .. 6; then flat, 0.67 .. 1.5"
    shared = found.here(shares_cores=True)
    assert shared.accepted == "does not fall, in all 0.8 .. 6, each step 0.8 .. 6; then flat, 0.5 .. 2"
    assert (found.cannot(shares_cores=True) is None, shared.cannot(shares_cores=True)) == (False, None)
    assert found.cannot(shares_cores=False, brokers=9) is None
    text = RANGE.replace('claim = "', 'brokers = 3\nclaim = "', 1)
    (of_three,) = load_relations(write(tmp_path, text, "relations.toml"))
    assert of_three.cannot(shares_cores=False, brokers=3) is None
    assert of_three.cannot(shares_cores=False) is None, "not known yet"
    assert of_three.cannot(shares_cores=False, brokers=9) == "stated of 3 brokers; this cluster has 9"
    with pytest.raises(ConfigurationError, match="brokers"):
        load_relations(write(tmp_path, text.replace("brokers = 3", "brokers = 0"), "relations.toml"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"partitions-6", "partitions-50"]', "]"), ["[partitions.range] over =", "a list of three scenarios or more"]),
        (('"partitions-6"', "6"), ["over =", "a list of three scenarios or more"]),
        (('"partitions-6"', '"partitions-1"'), ["names a scenario twice"]),
        (('rises_to = "partitions-3"', 'up_to = "partitions-3"'), ["unknown key 'up_to'", "rises_to, falls_to"]),
        (("at_most = 6", 'at_most = 6\nfalls_to = "partitions-6"'), ["has rises_to and falls_to: leave one out"]),
        (('rises_to = "partitions-3"\n', ""), ["at_least bounds a rise or fall: it needs rises_to or falls_to"]),
        (
            ('rises_to = "partitions-3"', 'rises_to = "partitions-9"'),
            ["rises_to = 'partitions-9'; legal: partitions-3, partitions-6, partitions-50"],
        ),
        (
            ('rises_to = "partitions-3"', 'rises_to = "partitions-1"'),
            ["rises_to = 'partitions-1'; legal: partitions-3"],
        ),
        (("flat_within = 0.5\n", ""), ["lacks the key 'flat_within': what comes after partitions-3"]),
        (('rises_to = "partitions-3"', 'falls_to = "partitions-50"'), ["has flat_within, but nothing comes after"]),
        (("step_at_least = 0.9\n", ""), ["lacks the key 'step_at_least'"]),
        (("at_most = 6\n", ""), ["lacks the key 'at_most'"]),
        (("at_most = 6", "at_most = 1"), ["at_most = 1 must be above 1"]),
        (("\nat_least = 1.2", "\nat_least = 0.5"), ["at_least = 0.5 must lie from step_at_least to below at_most"]),
        (("flat_within = 0.5", "flat_within = -1"), ["flat_within = -1 must be a positive number"]),
        (("flat_within = 0.5", "flat_within = nan"), ["flat_within = nan must be a positive number"]),
        (('"records_per_s"', '"speed"'), ["unknown metric 'speed'"]),
        (("{ at_least", '{ rises_to = "x", at_least'), ["shared_cores] rises_to = 'x'; legal"]),
        (("{ at_least", "{ of = 'x', at_least"), ["shared_cores] has unknown key 'of'"]),
        ((RANGE[RANGE.index("rises_to") : RANGE.index("source")], ""), ["has no shape; legal: rises_to or falls_to"]),
    ],
)
def test_a_bad_range_is_an_error_that_names_the_place(
    tmp_path: Path, change: tuple[str, str], words: list[str]
) -> None:
    assert change[0] in RANGE
    path = write(tmp_path, RANGE.replace(*change, 1), "relations.toml")
    with pytest.raises(ConfigurationError) as caught:
        load_relations(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_the_profile_is_found_by_its_facts(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "two-cores.toml")
    write(tmp_path, GOOD.replace("cores = 2", "cores = 4"), "four-cores.toml")
    profiles = load_profiles(tmp_path)
    found = match_profile(profiles, {"target": "embedded", "cores": "4", "kafka": "4.3"})
    assert found is not None
    assert found.name == "four-cores"
    assert match_profile(profiles, {"target": "embedded", "cores": "8"}) is None


def test_two_profiles_that_match_are_an_error(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "a.toml")
    write(tmp_path, GOOD, "b.toml")
    with pytest.raises(ConfigurationError, match=r"several profiles match this target and machine: a, b"):
        match_profile(load_profiles(tmp_path), {"target": "embedded", "cores": "2"})


def test_a_profile_that_fits_but_for_one_fact_is_found_with_that_fact(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "near.toml")
    write(tmp_path, GOOD.replace("cores = 2", "cores = 4\ncpu_model = 'Another'"), "far.toml")
    found = all_but_one(load_profiles(tmp_path), {"target": "embedded", "cores": "8", "kafka": "4.3"})
    assert [(profile.name, key) for profile, key in found] == [("near", "cores")]


def test_an_unknown_profile_names_the_known_ones(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "a.toml")
    with pytest.raises(ConfigurationError, match="unknown profile 'b'; legal: a"):
        named_profile(load_profiles(tmp_path), "b")
