"""Every branch of the judge, on synthetic measurements."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.claims.threshold import judge_threshold
from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.wording import Again, relation_message, scenario_message, scenario_sentence
from perfgate.model import NO_USAGE, CanaryReading, Judgement, Load, Measurement, Outcome, Profile, Threshold, Verdict
from perfgate.model.command import command_line, program
from perfgate.model.judged import SEVERITY, Effect, severity
from perfgate.report.allure_results import _headline
from perfgate.report.next_steps import to_do_line
from perfgate.report.results import recorded_measurement, scenario_entry
from perfgate.report.terminal import not_valid_notes, scenario_rows, unavailable_notes
from tests.harness.build import flawed, measurement, one_round, profile, relation, threshold

RATE = threshold("records_per_s", 1000.0, 0.1)
CPU = threshold("broker_cpu_us_per_record", 50.0, 0.1)


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([1000, 1010, 990], Verdict.PASS),
        ([905, 950, 1000], Verdict.PASS),
        ([880, 890, 895], Verdict.REGRESSED),
        ([500, 500, 500], Verdict.REGRESSED),
        ([880, 901, 905], Verdict.INCONCLUSIVE),
        ([880, 890, 905], Verdict.REGRESSED),
        ([880, 895, 905], Verdict.INCONCLUSIVE),
        ([700, 1000, 1300], Verdict.INCONCLUSIVE),
        ([1150, 1200, 1180], Verdict.IMPROVED),
        ([1090, 1200, 1180], Verdict.PASS),
    ],
)
def test_a_higher_is_better_metric(rounds: list[float], verdict: Verdict) -> None:
    assert judge_threshold(rounds, RATE).verdict is verdict


@pytest.mark.parametrize(
    ("rounds", "verdict"),
    [
        ([50, 51, 49], Verdict.PASS),
        ([56, 57, 60], Verdict.REGRESSED),
        ([54, 55, 56], Verdict.INCONCLUSIVE),
        ([42, 43, 44], Verdict.IMPROVED),
        ([44, 45, 46], Verdict.PASS),
        ([40, 41, 42], Verdict.INCONCLUSIVE),  # 50 is 1.22 times as much, and more than 1.2 is too good
    ],
)
def test_a_lower_is_better_metric(rounds: list[float], verdict: Verdict) -> None:
    assert judge_threshold(rounds, CPU).verdict is verdict


LATENCY = threshold("latency_ms.p99", 4.0, 0.1)
LATE = {"latency_ms": "sent late: p99 of the schedule delay is 3.0 ms"}


def spoilt(rates: Sequence[float], name: str = "batch-1k") -> Measurement:
    """Return a measurement of these rates whose second round was sent late."""
    rounds = tuple(one_round(i, rate, spoilt=LATE if i == 2 else {}) for i, rate in enumerate(rates, start=1))
    return replace(measurement(rates, name), rounds=rounds)


def test_a_spoilt_latency_spoils_neither_the_rate_nor_the_cpu() -> None:
    outcome = judge_scenario(spoilt([1000, 1010, 990]), profile(RATE, CPU, LATENCY))
    found = {judgement.metric: judgement.verdict for judgement in outcome.judgements}
    assert found == {
        "records_per_s": Verdict.PASS,
        "broker_cpu_us_per_record": Verdict.PASS,
        "latency_ms.p99": Verdict.INVALID,
    }
    assert outcome.verdict is Verdict.INVALID, "something that is held was not told"
    message = scenario_message(outcome, spoilt([1000, 1010, 990]), profile(RATE, CPU, LATENCY))
    assert "invalid    latency_ms.p99: round 2: sent late" in message
    assert "(1 of 3 rounds)" in message
    assert "nothing was judged" not in message


def test_a_spoilt_latency_that_nothing_is_held_against_is_a_note() -> None:
    outcome = judge_scenario(spoilt([1000, 1010, 990]), profile(RATE, CPU))
    assert outcome.verdict is Verdict.PASS
    assert outcome.reasons == (f"latency_ms is not valid: round 2: {LATE['latency_ms']} (1 of 3 rounds)",)


def test_a_spoilt_latency_does_not_hide_that_the_rate_regressed() -> None:
    assert judge_scenario(spoilt([500, 505, 495]), profile(RATE, CPU, LATENCY)).verdict is Verdict.REGRESSED


def test_only_a_relation_in_the_spoilt_metric_is_invalid() -> None:
    both = {"fast": spoilt([3000, 3010, 2990], "fast"), "slow": measurement([1000, 1010, 990], "slow")}
    assert judge_relation(relation(2.0), both).verdict is Verdict.PASS
    outcome = judge_relation(relation(0.5, "latency_ms.p99"), both)
    assert outcome.verdict is Verdict.INVALID
    assert outcome.reasons[0].startswith("fast: latency_ms.p99: round 2: sent late")
    assert judge_relation(relation(2.0, "latency_ms.p99"), both).verdict is Verdict.REGRESSED, "by the two sound rounds"


def test_the_reports_say_which_latency_is_not_valid() -> None:
    taken = spoilt([1000, 1010, 990])
    outcome = judge_scenario(taken, profile(RATE, CPU))
    (row,) = scenario_rows({"batch-1k": outcome}, {"batch-1k": taken})
    assert (row[1], row[3], row[-1]) == ("1,000", "invalid", "PASS")
    (note,) = not_valid_notes({"batch-1k": taken})
    assert note.startswith("note: batch-1k: latency_ms is not valid: round 2: sent late")
    assert "p99" in _headline(measurement([1000, 1010, 990]))
    assert "p99" not in _headline(taken)


def test_what_nothing_tells_of_the_brokers_is_unavailable_with_its_reason() -> None:
    def lacking(name: str, *figures: str) -> Measurement:
        taken = measurement([1000, 1010, 990], name)
        rounds = [flawed(one, invalid_metrics={}) for one in taken.rounds]
        rounds[1] = replace(rounds[1], untold=dict.fromkeys(figures, "no counters"))
        return replace(taken, rounds=tuple(rounds))

    measured = {name: lacking(name, "disk", "network") for name in ("batch-1k", "batch-16k")}
    assert unavailable_notes(measured) == [
        "note: disk, network of the brokers: unavailable in 2 scenarios: no counters"
    ]
    assert unavailable_notes({"acks-all": lacking("acks-all", "disk")}) == [
        "note: disk of the brokers: unavailable in acks-all: no counters"
    ]
    assert unavailable_notes({"batch-1k": measurement([1000])}) == []
    assert recorded_measurement(scenario_entry(measured["batch-1k"], None)).rounds[1].untold == {
        "disk": "no counters",
        "network": "no counters",
    }


@pytest.mark.parametrize(
    ("why", "held", "verdict"),
    [
        (NO_USAGE, (RATE,), Verdict.PASS),
        (NO_USAGE, (), Verdict.MISSING),
        (NO_USAGE, (RATE, CPU), Verdict.INCONCLUSIVE),
        ("3 scrapes in a window of 2 s, 4 are needed", (RATE,), Verdict.MISSING),
    ],
)
def test_the_cpu_of_brokers_is_not_asked_for_where_nobody_is_named_to_tell_it(
    why: str, held: tuple[Threshold, ...], verdict: Verdict
) -> None:
    """No run could be a baseline of it, so that every scenario was MISSING, and red every night, however fast."""
    taken = measurement([1000, 1010, 990])
    blind = [
        replace(r, metrics={"records_per_s": r.metrics["records_per_s"]}, usage_unavailable=why, untold={"CPU": why})
        for r in taken.rounds
    ]
    taken = replace(taken, rounds=tuple(blind))
    assert judge_scenario(taken, profile(*held)).verdict is verdict
    (note,) = unavailable_notes({"batch-1k": taken})
    assert note.endswith("; their CPU is not held") is (why == NO_USAGE)


@given(st.lists(st.floats(100, 2000), min_size=2, max_size=9), st.floats(1.01, 3))
def test_faster_rounds_never_get_a_worse_verdict_than_regressed_ones(rounds: list[float], factor: float) -> None:
    before, after = judge_threshold(rounds, RATE), judge_threshold([r * factor for r in rounds], RATE)
    if before.verdict is not Verdict.REGRESSED:
        assert after.verdict is not Verdict.REGRESSED


@given(st.lists(st.floats(100, 2000), min_size=2, max_size=9))
def test_a_median_beyond_the_limit_is_never_green(rounds: list[float]) -> None:
    judgement = judge_threshold(rounds, RATE)
    assert judgement.measured is not None
    if judgement.measured < RATE.limit:
        assert not judgement.verdict.green


def test_all_metrics_are_judged_and_the_worst_decides() -> None:
    outcome = judge_scenario(measurement([1000, 1010, 990], cpu_us=80), profile(RATE, CPU))
    assert [j.verdict for j in outcome.judgements] == [Verdict.PASS, Verdict.REGRESSED]
    assert outcome.verdict is Verdict.REGRESSED


def test_an_invalid_round_makes_the_scenario_invalid_whatever_its_numbers() -> None:
    sound = measurement([1000, 1000])
    broken = replace(sound, rounds=(*sound.rounds, one_round(3, 1000, invalid=("a broker died",))))
    outcome = judge_scenario(broken, profile(RATE, CPU))
    assert outcome.verdict is Verdict.INVALID
    assert outcome.reasons == ("round 3: a broker died",)
    assert outcome.judgements == ()


def test_no_round_and_one_round_are_invalid() -> None:
    assert judge_scenario(measurement([]), profile(RATE, CPU)).verdict is Verdict.INVALID
    assert judge_scenario(measurement([1000]), profile(RATE, CPU)).verdict is Verdict.INVALID


@pytest.mark.parametrize("held", [profile(), profile(RATE), profile(CPU), None])
def test_throughput_and_cpu_must_both_be_held(held: Profile | None) -> None:
    outcome = judge_scenario(measurement([1000, 1010, 990]), held)
    assert outcome.verdict is Verdict.MISSING


def test_a_metric_missing_from_a_round_is_invalid_not_green() -> None:
    sound = measurement([1000, 1010, 990])
    torn = replace(sound.rounds[2], metrics={"records_per_s": 990})
    outcome = judge_scenario(replace(sound, rounds=(*sound.rounds[:2], torn)), profile(RATE, CPU))
    assert outcome.verdict is Verdict.INVALID


def test_there_is_one_order_of_all_verdicts_and_effects() -> None:
    assert sorted(SEVERITY) == sorted({one.value for one in (*Verdict, *Effect)})
    for kind in (Verdict, Effect):
        colours = [2 * one.red + (not one.green) for one in sorted(kind, key=severity)]
        assert colours == sorted(colours, reverse=True), "red, then undecided, then green"
    assert [v for v in Verdict if v.green] == [Verdict.PASS, Verdict.IMPROVED]


@pytest.mark.parametrize(
    ("at_least", "verdict"),
    [(1.5, Verdict.PASS), (2.0, Verdict.INCONCLUSIVE), (3.0, Verdict.REGRESSED)],
)
def test_a_relation_is_judged_on_the_paired_rounds(at_least: float, verdict: Verdict) -> None:
    pair = {"fast": measurement([2000, 2100, 1900], "fast"), "slow": measurement([1000, 1000, 1000], "slow")}
    outcome = judge_relation(relation(at_least), pair)
    assert outcome.verdict is verdict
    assert outcome.rounds == (2.0, 2.1, 1.9)


def test_a_relation_pairs_rounds_by_their_number_not_by_their_place() -> None:
    fast = measurement([2000, 4000, 2000], "fast")
    slow = replace(measurement([1000, 2000, 1000], "slow"))
    slow = replace(slow, rounds=(slow.rounds[1], slow.rounds[0], slow.rounds[2]))
    assert judge_relation(relation(1.5), {"fast": fast, "slow": slow}).rounds == (2.0, 2.0, 2.0)


def test_a_relation_that_lacks_a_round_is_invalid_not_judged_on_the_rest() -> None:
    fast, slow = measurement([2000, 2000, 2000], "fast"), measurement([1000, 1000, 1000], "slow")
    torn = replace(slow, rounds=(*slow.rounds[:2], replace(slow.rounds[2], metrics={})))
    outcome = judge_relation(relation(1.5), {"fast": fast, "slow": torn})
    assert outcome.verdict is Verdict.INVALID
    assert outcome.reasons == ("records_per_s was measured in 2 of 3 rounds of both scenarios",)


def test_a_relation_of_a_row_that_was_given_up_is_inconclusive() -> None:
    """Its rounds are valid, and there are fewer of them because they scattered: that is thresholds/README's rule."""
    fast, slow = measurement([2000] * 4, "fast"), measurement([1000] * 4, "slow")
    outcome = judge_relation(relation(1.5), {"fast": fast, "slow": replace(slow, rounds=slow.rounds[:2])})
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.reasons == ("slow was measured in 2 of 4 rounds: it scattered too much",)
    assert "it scattered too much" in relation_message(outcome, relation(1.5))


def test_a_relation_whose_metric_is_unavailable_is_inconclusive_and_says_why() -> None:
    fast, slow = measurement([2000, 2000], "fast"), measurement([1000, 1000], "slow")
    blind = replace(slow.rounds[1], metrics={}, usage_unavailable="2 scrapes in a window of 2 s")
    outcome = judge_relation(relation(1.5), {"fast": fast, "slow": replace(slow, rounds=(slow.rounds[0], blind))})
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "2 scrapes in a window of 2 s" in relation_message(outcome, relation(1.5))


def test_a_relation_with_an_invalid_side_is_invalid() -> None:
    bad = replace(measurement([1000, 1000], "slow"), rounds=(one_round(1, 1, invalid=("no acks\nlog line",)),))
    outcome = judge_relation(relation(1.5), {"fast": measurement([2000, 2000], "fast"), "slow": bad})
    assert outcome.verdict is Verdict.INVALID
    assert outcome.reasons == ("slow: round 1: no acks",)


def test_the_message_of_a_regression_names_all_that_is_needed() -> None:
    outcome = judge_scenario(measurement([700, 710, 690]), profile(RATE, CPU))
    message = scenario_message(outcome, measurement([700, 710, 690]), profile(RATE, CPU))
    for part in (
        "REGRESSED batch-1k",
        "records_per_s",
        "700 records/s (centre of 3 rounds, spread 1.4 %",
        "1,000 records/s, tolerance 10.0 %: at least 900",
        "-30.0 % from the baseline",
        "test (thresholds/test.toml)",
        command_line("gate", "-k", "batch-1k"),
    ):
        assert part in message
    assert "broker_cpu" not in message, "what passed is not in the message of what failed"


def test_the_message_asks_for_the_run_s_own_target_and_tier() -> None:
    """The brokers of a red nightly were somebody's own: the command measured three of this machine instead."""
    asked = ("--target", "staging.toml", "--tier", "nightly")
    again = Again(given=asked, recording=asked, selection=("-k", "batch-1k and not batch-1k-b"), rounds=7)
    red = judge_scenario(measurement([700, 710, 690]), profile(RATE, CPU))
    told = scenario_message(red, measurement([700, 710, 690]), profile(RATE, CPU), again)
    assert f"({program()} gate --target staging.toml --tier nightly -k 'batch-1k and not batch-1k-b')" in told
    assert f"record it: {program()} thresholds" in told
    pair = {"fast": measurement([2000, 2100, 1900], "fast"), "slow": measurement([1000, 1000, 1000], "slow")}
    told = relation_message(judge_relation(relation(3.0), pair), relation(3.0), Again(given=("--tier", "full")))
    assert f"({program()} gate --tier full --family family)" in told
    unsure = replace(red, verdict=Verdict.INCONCLUSIVE)
    told = scenario_message(unsure, measurement([700, 710, 690]), profile(RATE, CPU), again)
    assert "--rounds 14" in told, "more than it had"
    unstored = replace(red, verdict=Verdict.MISSING)
    told = scenario_message(unstored, measurement([700, 710, 690]), profile(RATE, CPU), again)
    assert f"record it: {program()} baseline --target staging.toml --tier nightly (" in told
    told = scenario_message(red, measurement([700, 710, 690]), profile(RATE, CPU), Again(driver=("--driver", "java")))
    assert "--driver java)" in told


def test_the_message_of_a_broken_relation_names_all_that_is_needed() -> None:
    pair = {"fast": measurement([2000, 2100, 1900], "fast"), "slow": measurement([1000, 1000, 1000], "slow")}
    message = relation_message(judge_relation(relation(3.0), pair), relation(3.0))
    for part in ("REGRESSED family-rate", "fast / slow", "2 (median of 3", "3 to 100 x slow", "-33.3 %"):
        assert part in message


@pytest.mark.parametrize(
    ("verdict", "judged", "sentence"),
    [
        (
            Verdict.REGRESSED,
            {"metric": "broker_cpu_us_per_record", "measured": 70.0, "baseline": 50.0, "limit": 60.0},
            "a: CPU of all brokers per record is 40.0 % above its baseline (70 us/record, at most 60)",
        ),
        (
            Verdict.REGRESSED,
            {"metric": "records_per_s", "measured": 900.0, "limit": 1000.0},
            "a sends 10.0 % fewer records/s than its limit (900 records/s, at least 1,000)",
        ),
        (
            Verdict.REGRESSED,
            {"metric": "lost_records", "measured": 12.0, "limit": 0.0},
            "a: records acknowledged and not in the log: 12 records, at most 0",
        ),
        (Verdict.INVALID, {"metric": "latency_ms.p99", "reason": "late"}, "a: latency_ms.p99: late"),
        (Verdict.PASS, {"metric": "records_per_s", "measured": 900.0}, "a is as expected"),
    ],
)
def test_the_sentence_tells_the_metric_that_is_farthest_off(
    verdict: Verdict, judged: dict[str, Any], sentence: str
) -> None:
    near = Judgement(verdict=verdict, metric="mib_per_s", measured=99.0, baseline=100.0, limit=98.0)
    held = Judgement(verdict=verdict, **judged)
    reasons = (f"{held.metric}: {held.reason}\nlog line",) if held.reason else ()
    found = scenario_sentence(Outcome(name="a", verdict=verdict, judgements=(near, held), reasons=reasons))
    assert found == sentence


def test_the_messages_of_missing_and_inconclusive_say_what_to_do() -> None:
    missing = judge_scenario(measurement([1000, 1000, 1000]), None)
    assert command_line("baseline") in scenario_message(missing, measurement([1000, 1000, 1000]), None)
    noisy = measurement([700, 1000, 1300])
    outcome = judge_scenario(noisy, profile(RATE, CPU))
    text = scenario_message(outcome, noisy, profile(RATE, CPU))
    assert "the rounds spread too wide for the limit's distance" in text
    assert "--rounds 9" in text


@pytest.mark.parametrize(
    ("short", "verdict"), [(0, Verdict.PASS), (1, Verdict.INCONCLUSIVE), (2, Verdict.REGRESSED), (3, Verdict.REGRESSED)]
)
def test_a_load_that_was_not_sustained_is_never_green(short: int, verdict: Verdict) -> None:
    """Whatever the thresholds say: these all pass."""
    taken = measurement([1000, 1001, 1002])
    rounds = [replace(r, not_sustained="not sustained: 5 of 10" if r.index <= short else "") for r in taken.rounds]
    limits = profile(threshold("records_per_s", 1000), threshold("broker_cpu_us_per_record", 50))
    outcome = judge_scenario(replace(taken, rounds=tuple(rounds)), limits)
    assert outcome.verdict is verdict
    assert ("not sustained" in str(outcome.reasons)) == (short > 0)


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ([493.1, 500, 500, 500, 500], Verdict.PASS),
        ([493.1, 494.9, 500, 500, 500], Verdict.PASS),
        ([493.1, 494.3, 500, 500, 500], Verdict.INCONCLUSIVE),
        ([487, 500, 500, 500, 500], Verdict.INCONCLUSIVE),
        ([487, 500, 520, 520, 520], Verdict.INCONCLUSIVE),
        ([498, 500, 500, 500, 500], Verdict.INCONCLUSIVE),
        ([494, 494, 494, 500, 500], Verdict.REGRESSED),
    ],
    ids=["one", "two", "too much of two", "too much", "not made up for", "another reason", "most rounds"],
)
def test_a_stall_at_the_edge_of_a_window_leaves_the_rate_taken(rates: list[float], verdict: Verdict) -> None:
    """Brokers that stood still for 0.11 s as one of five windows of 8 s closed made the scenario undecided.

    A round that is short although its rate is whole was short of something else: the rest could not be handed over.
    """
    taken = measurement(rates)
    taken = replace(taken, scenario=replace(taken.scenario, load=Load(kind="paced", rate=500)))
    short = {1, 2, 3} if verdict is Verdict.REGRESSED else {n for n, rate in enumerate(rates, 1) if rate < 500}
    rounds = tuple(replace(r, not_sustained="not sustained" if r.index in short else "") for r in taken.rounds)
    names = {"records_per_s": 500.0, "broker_cpu_us_per_record": 50.0, "latency_ms.p99": 5.0}
    rounds = tuple(replace(r, metrics={**r.metrics, "latency_ms.p99": 5.0}) for r in rounds)
    limits = profile(*(threshold(name, value) for name, value in names.items()))
    assert judge_scenario(replace(taken, rounds=rounds), limits).verdict is verdict


REDDER = [Verdict.MISSING, Verdict.INCONCLUSIVE, Verdict.REGRESSED]


@given(st.lists(st.floats(300, 510), min_size=3, max_size=9), st.integers(0, 8), st.floats(0, 200))
def test_the_less_of_a_rate_is_taken_the_redder(rates: list[float], which: int, less: float) -> None:
    """Rounds of 8 s that lack more than a tenth of a second's records are short."""

    def judged(rates: list[float]) -> int:
        found = measurement(rates)
        found = replace(found, scenario=replace(found.scenario, load=Load(kind="paced", rate=500)))
        short = {r.index for r in found.rounds if r.metrics["records_per_s"] < 493.75}
        rounds = [replace(r, not_sustained="short" if r.index in short else "") for r in found.rounds]
        return REDDER.index(judge_scenario(replace(found, rounds=tuple(rounds)), None).verdict)

    worse = list(rates)
    worse[which % len(rates)] -= less
    assert judged(worse) >= judged(rates)


def test_a_load_that_a_disturbed_machine_did_not_take_is_not_red() -> None:
    """The host took 40 % of the CPU time for ten minutes, both looks long: red, and "confirmed"."""
    taken = measurement([440, 441, 442])
    row = replace(taken.scenario, load=Load(kind="paced", rate=500))
    taken = replace(taken, scenario=row)
    rounds = tuple(replace(r, not_sustained="not sustained: 440 of 500") for r in taken.rounds)
    quiet = taken.canary or (CanaryReading(deflate_mib_per_s=100, loopback_per_s=10_000, pressure=0, steal=0),) * 4
    stolen = tuple(replace(one, steal=0.4) for one in quiet)
    limits = profile(threshold("broker_cpu_us_per_record", 50), threshold("latency_ms.p99", 0.1))
    assert judge_scenario(replace(taken, rounds=rounds, canary=quiet), limits).verdict is Verdict.REGRESSED
    assert judge_scenario(replace(taken, rounds=rounds, canary=stolen), limits).verdict is Verdict.INCONCLUSIVE
    late = tuple(replace(r, metrics={**r.metrics, "latency_ms.p99": 120_000.0}) for r in rounds)
    found = judge_scenario(replace(taken, rounds=late, canary=stolen), limits)
    assert found.verdict is Verdict.REGRESSED, "a queue of 2 s is explained, and not one of 120 s"
    few = tuple(replace(r, metrics={**r.metrics, "records_per_s": 100.0}) for r in rounds)
    assert judge_scenario(replace(taken, rounds=few, canary=stolen), limits).verdict is Verdict.REGRESSED


def elsewhere(rates: Sequence[float], name: str) -> Measurement:
    """Return a measurement of a row whose brokers are set up in another way, so that it has a cluster of its own."""
    found = measurement(rates, name)
    cluster = replace(found.scenario.cluster, config=(("num.io.threads", "2"),))
    return replace(found, scenario=replace(found.scenario, cluster=cluster))


def test_rows_on_different_clusters_are_not_paired() -> None:
    """Measured one after the other, what both clusters share within a round is nothing: chance must not narrow it."""
    rates = [1000, 1100, 1200, 900, 800, 1000]
    same = judge_relation(
        relation(1.2), {"fast": measurement([2 * r for r in rates], "fast"), "slow": measurement(rates, "slow")}
    )
    apart = judge_relation(
        relation(1.2), {"fast": elsewhere([2 * r for r in rates], "fast"), "slow": measurement(rates, "slow")}
    )
    (paired,), (unpaired,) = same.judgements, apart.judgements
    assert (same.paired, apart.paired) == (True, False)
    assert paired.interval == (2.0, 2.0)
    assert unpaired.interval == pytest.approx((2 * 800 / 1200, 2 * 1200 / 800))
    assert unpaired.measured == 2.0
    assert "unpaired" in relation_message(apart, relation(1.2))


def test_rows_on_different_clusters_need_not_have_as_many_rounds() -> None:
    outcome = judge_relation(
        relation(1.2), {"fast": elsewhere([2000, 2000, 2000], "fast"), "slow": measurement([1000, 1000], "slow")}
    )
    assert outcome.verdict is Verdict.PASS


def test_no_more_rounds_are_advised_where_the_declaration_says_how_many_faults_there_are() -> None:
    """--rounds 30 was, for a scenario of five faults, and measured five."""
    unsure = replace(judge_scenario(measurement([700, 710, 690]), profile(RATE, CPU)), verdict=Verdict.INCONCLUSIVE)
    again = Again(given=("--tier", "full"), with_fault=True)
    told = scenario_message(unsure, measurement([700, 710, 690]), profile(RATE, CPU), again)
    assert f"quiet it and run again ({program()} gate --tier full -k batch-1k)" in told
    names = ["batch-1k"]
    line = to_do_line([unsure], {}, Again(rounds=15), names=names, on_that_machine=False, with_fault=names)
    assert line.endswith(f"quiet the machine, then {program()} gate -k batch-1k")
