"""--confirm-with-more-hosts: generators that are the limit are found, brokers that are it confirmed, noise neither."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.claims.more_hosts import BROKERS_CPU, RECEIVED, SENT, host_doubts, more_hosts, most_ratio, notes_of
from perfgate.judge.claims.relation import judge_relation
from perfgate.judge.scenario_case import judge_scenario
from perfgate.model import Consumers, Load, Measurement, Round, Verdict
from perfgate.model.flaw import Doubt
from perfgate.report.results import recorded_measurement, scenario_entry
from tests.harness.build import flawed, measurement, one_round, profile, relation, threshold
from tests.harness.build.hosts import report

FLAT = (100_000.0, 101_000.0, 99_000.0, 100_500.0, 99_500.0, 100_200.0, 99_800.0)
HELD = profile(threshold("records_per_s", 100_000.0), threshold("broker_cpu_us_per_record", 50.0))
RATES = st.lists(st.floats(1.0, 1e6), min_size=2, max_size=9)


def on(hosts: int, rates: Sequence[float]) -> tuple[Round, ...]:
    """Return rounds at these rates on so many load hosts, each with two processes."""
    hosts_of = tuple(report(f"load-{n}", 1_000, 0.01) for n in range(1, hosts + 1))
    return tuple(replace(one_round(index, rate, spoilt={}), hosts=hosts_of) for index, rate in enumerate(rates, 1))


def confirmed(of: Sequence[float], over: Sequence[float], hosts: int = 3) -> Measurement:
    return replace(measurement(of), rounds=on(hosts, of), one_host_fewer=on(hosts - 1, over))


def unbounded(of: Sequence[float], over: Sequence[float]) -> Measurement:
    """Return the same of a load whose own cap is far off."""
    found = confirmed(of, over)
    return replace(found, scenario=replace(found.scenario, load=Load(kind="capped", rate=1e12)))


def times(factor: float, rates: Sequence[float] = FLAT) -> list[float]:
    return [factor * rate for rate in rates]


def test_a_rate_that_rises_with_one_host_more_is_the_generators_and_said_so_with_both_figures() -> None:
    found = confirmed(FLAT, times(2 / 3))
    outcome = judge_scenario(found, HELD)
    assert outcome.verdict is Verdict.INVALID
    assert outcome.more_hosts is not None
    assert outcome.more_hosts.finding == "saturated"
    (reason,) = outcome.reasons
    assert reason.startswith(
        "generator saturated: 100,000 records/s (99,000 .. 101,000) on 3 load hosts, "
        "66,667 records/s (66,000 .. 67,333) on 2 of them: 1.5 x (1.5 .. 1.5, at most 1.05)"
    )
    same = confirmed(FLAT, FLAT)
    held = judge_relation(relation(0.5), {"fast": found, "slow": same})
    assert held.verdict is Verdict.INVALID, "what generators limited shows nothing in a relation either"


@pytest.mark.parametrize(("full", "verdict"), [(0.1, Verdict.INVALID), (0.9, Verdict.REGRESSED)])
def test_generators_that_wait_for_brokers_explain_what_one_host_more_made_of_it(full: float, verdict: Verdict) -> None:
    """Records that are under way 20 times as long make each load rise with its hosts: that was never red."""
    found = confirmed(times(1 / 20), times(1 / 30))
    hosts = tuple(replace(host, pushback_share=full) for host in found.rounds[0].hosts)
    waiting = replace(found, rounds=tuple(replace(r, hosts=hosts) for r in found.rounds))
    assert judge_scenario(waiting, HELD).verdict is verdict
    limit = Doubt(kind="generator saturated", whose="load", text="its cores were 99% busy", factor=None)
    at_limit = replace(waiting, rounds=tuple(flawed(r, doubts=(limit,)) for r in waiting.rounds))
    assert judge_scenario(at_limit, HELD).verdict is Verdict.INVALID
    within = replace(waiting, rounds=on(3, times(1 / 1.4)), one_host_fewer=on(2, times(1 / 2.1)))
    assert judge_scenario(within, HELD).verdict is Verdict.INVALID, "1.5 times may be the hosts'"


@pytest.mark.parametrize(("cores_of", "cores_over", "finding"), [(0.47, 0.47, "unknown"), (0.47, 0.40, "saturated")])
def test_brokers_that_take_more_with_as_much_cpu_may_be_the_limit(
    cores_of: float, cores_over: float, finding: str
) -> None:
    """A broker of half a core was "not the limit", for four producers had it take 1.13 times what three did."""
    found = confirmed(FLAT, times(1 / 1.13))
    rounds, fewer = (
        tuple(replace(r, metrics={**r.metrics, BROKERS_CPU: cores + r.index / 1e3}) for r in part)
        for part, cores in ((found.rounds, cores_of), (found.one_host_fewer, cores_over))
    )
    outcome = judge_scenario(replace(found, rounds=rounds, one_host_fewer=fewer), HELD)
    assert outcome.more_hosts is not None
    assert outcome.more_hosts.finding == finding
    assert outcome.verdict is (Verdict.INCONCLUSIVE if finding == "unknown" else Verdict.INVALID)
    assert ("with as much CPU" in outcome.more_hosts.words) is (finding == "unknown")


def test_a_rate_that_stays_is_confirmed_and_judged_as_ever() -> None:
    outcome = judge_scenario(confirmed(FLAT, times(1.0, FLAT[::-1])), HELD)
    assert outcome.verdict is Verdict.PASS
    (note,) = notes_of([outcome])
    assert note.startswith("batch-1k: confirmed with one load host fewer: 100,000 records/s")
    assert judge_scenario(confirmed(times(0.5), times(0.5)), HELD).verdict is Verdict.REGRESSED
    fewer_is_better = judge_scenario(confirmed(FLAT, times(1.3)), HELD)
    assert fewer_is_better.more_hosts is not None
    assert fewer_is_better.more_hosts.finding == "confirmed"


def test_what_noise_hides_is_not_green() -> None:
    scattered = [100_000.0, 60_000.0, 150_000.0, 90_000.0, 130_000.0, 70_000.0, 105_000.0]
    outcome = judge_scenario(confirmed(FLAT, scattered), HELD)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "rounds scatter too much to tell" in outcome.reasons[-1]
    assert judge_scenario(confirmed(FLAT, scattered), None).verdict is Verdict.INCONCLUSIVE, "nor without thresholds"
    held = judge_relation(relation(0.5), {"fast": confirmed(FLAT, scattered), "slow": confirmed(FLAT, FLAT)})
    assert held.verdict is Verdict.INCONCLUSIVE


def test_a_round_on_fewer_hosts_that_does_not_count_or_is_missing_confirms_nothing() -> None:
    sound = confirmed(FLAT, FLAT)
    bad = flawed(sound.one_host_fewer[3], invalid=("the load host load-2 is lost",))
    for fewer in ((*sound.one_host_fewer[:3], bad), sound.one_host_fewer[:6], sound.one_host_fewer[:1]):
        outcome = judge_scenario(replace(sound, one_host_fewer=fewer), HELD)
        assert outcome.verdict is Verdict.INCONCLUSIVE, fewer
    lost = flawed(bad, broken=bad.invalid)
    outcome = judge_scenario(replace(sound, one_host_fewer=(*sound.one_host_fewer[:3], lost)), HELD)
    assert outcome.verdict is Verdict.BROKEN, "what brokers do on fewer hosts is their doing too"


def test_a_load_at_its_own_cap_is_not_limited_by_its_hosts() -> None:
    at_cap = confirmed(times(10), times(6))  # declared: 1,000,000 records/s
    outcome = more_hosts(at_cap)
    assert outcome is not None
    assert (outcome.finding, outcome.words[:38]) == ("confirmed", "confirmed: its own cap of 1,000,000 re")


def test_consumers_that_fall_behind_are_looked_at_as_well() -> None:
    def reading(rounds: tuple[Round, ...], share: float) -> tuple[Round, ...]:
        return tuple(replace(r, metrics={**r.metrics, RECEIVED: share * r.metrics[SENT]}) for r in rounds)

    sound = confirmed(FLAT, FLAT)
    row = replace(sound.scenario, consumers=Consumers(membership="group", processes=3))
    for share, fewer, finding in ((1.0, 0.6, "confirmed"), (0.9, 0.6, "saturated"), (0.9, 0.9, "confirmed")):
        rounds, over = reading(sound.rounds, share), reading(sound.one_host_fewer, fewer)
        found = more_hosts(replace(sound, scenario=row, rounds=rounds, one_host_fewer=over))
        assert found is not None
        assert found.finding == finding, (share, fewer)
    behind = replace(sound, rounds=reading(sound.rounds, 0.9), one_host_fewer=reading(sound.one_host_fewer, 0.6))
    (doubt,) = host_doubts(replace(behind, scenario=row))
    assert not doubt.touches("records_per_s"), "consumers that were too few excuse nothing of what was sent"
    assert doubt.touches("received_records_per_s")


def test_readers_that_wait_explain_what_one_host_more_made_of_it() -> None:
    """A backlog that was read at a twentieth was REGRESSED, and with one host more INVALID."""
    found = confirmed(times(1 / 20), times(1 / 38))
    row = replace(found.scenario, load=Load(kind="backlog", records=1_000_000))
    assert judge_scenario(replace(found, scenario=row), HELD).verdict is Verdict.REGRESSED


def test_of_many_hosts_one_more_is_expected_to_add_little() -> None:
    assert most_ratio(confirmed(FLAT, FLAT, hosts=2)) == 1.05
    twenty = confirmed(FLAT, times(19 / 20), hosts=20)
    assert 1.02 < most_ratio(twenty) < 1.03
    found = more_hosts(twenty)
    assert found is not None
    assert found.finding == "saturated", "5.3 % is all that the twentieth of twenty can add"


def test_it_is_in_run_json_and_read_back() -> None:
    found = confirmed(FLAT, times(2 / 3))
    entry = scenario_entry(found, judge_scenario(found, HELD))
    assert entry["more_hosts"]["finding"] == "saturated"
    assert (entry["more_hosts"]["hosts"], entry["more_hosts"]["fewer_hosts"]) == (3, 2)
    assert entry["more_hosts"]["ratio"] > 1.4
    again = recorded_measurement(entry)
    assert again == found
    assert judge_scenario(again, HELD) == judge_scenario(found, HELD)


@given(RATES, st.floats(1.2, 10.0), st.floats(1e-3, 1e3))
def test_a_rise_is_found_whatever_the_rates_are_and_whatever_their_unit(
    rates: list[float], factor: float, unit: float
) -> None:
    """Ratios of rounds of the same number count: what both drift by does not."""
    found = more_hosts(unbounded(times(unit, rates), times(unit / factor, rates)))
    assert found is not None
    assert found.finding == "saturated"
    same = more_hosts(unbounded(times(unit, rates), times(unit, rates)))
    assert same is not None
    assert same.finding == "confirmed"


@given(RATES, RATES)
def test_no_two_loads_each_rise_over_the_other_and_a_rise_in_every_round_never_confirms(
    of: list[float], over: list[float]
) -> None:
    count = min(len(of), len(over))
    found, back = (more_hosts(unbounded(one[:count], other[:count])) for one, other in ((of, over), (over, of)))
    assert found is not None
    assert back is not None
    assert {found.finding, back.finding} != {"saturated"}
    if all(above > 1.06 * below for above, below in zip(of, over, strict=False)):
        assert found.finding == "saturated"


def test_a_scenario_of_which_no_round_is_judged_is_no_error() -> None:
    """Rounds added for the warm-up of others left it with those on fewer hosts alone: judging ended in ValueError."""
    none = replace(confirmed(FLAT, FLAT), rounds=())
    assert more_hosts(none) is None
    assert judge_scenario(none, HELD).verdict is Verdict.INVALID
