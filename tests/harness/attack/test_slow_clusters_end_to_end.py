"""Fake clusters from the load to the verdict: as brokers get slower the share of red rises, to all from 20 x on.

Brokers serve records at a rate that falls with their service time, on two processors that the client shares. The load,
its validity, rounds, repeats, the stop rule and the verdict are the product's own.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from perfgate.judge.gate_stop import GateStopRule
from perfgate.judge.scenario_case import judge_scenario
from perfgate.measure.assembly import Finished, round_of
from perfgate.measure.rounds import Rounds
from perfgate.measure.validity import accounting_of, not_sustained, round_flaws
from perfgate.model import CanaryReading, Load, Profile, Scenario, Tier, Verdict
from perfgate.model.load import LoadResult
from tests.harness.build import histogram, load_result, profile, scenario, sent, threshold
from tests.harness.build.benches import FakeSetup
from tests.harness.build.canary import Canary
from tests.harness.live_load import row

WINDOW_S, CORES = 3.0, 2.0
BROKER_US, CLIENT_US = 60.0, 20.0
"""CPU for a record as the brokers are unchanged."""
PACED = 500.0
SCALES = (1.0, 2.0, 4.0, 20.0, 100.0)
TIER = Tier(name="smoke", rounds=3, window_s=3, warmup_max_s=1, broker_warmup_s=1)
CAPPED_ROW = row(scenario("capped"), load=Load(kind="capped", rate=1e6))
PACED_ROW = row(scenario("paced"), load=Load(kind="paced", rate=PACED))
CAPACITY = CORES / (BROKER_US + CLIENT_US) * 1e6
QUIET = CanaryReading(deflate_mib_per_s=90, loopback_per_s=25_000, pressure=0, steal=0, deflate_mib_per_cpu_s=45)
MOODS = ("none", "stalls", "starved", "compiling", "unsteady", "backup")
"""What else happens: brokers that stand still, a client that waits for a processor, and so on."""


@dataclass
class SlowBench:
    """Gives rounds of brokers that take so many times as long for a record."""

    times: float
    mood: str
    random: np.random.Generator

    def warm_up(self, _scenarios: object) -> dict[str, object]:
        return {}

    def round_trips(self, _scenarios: object) -> dict[str, float]:
        return {}

    def delete_backlogs(self) -> None: ...

    def brokers_cpu_s(self) -> float:
        return 0.0

    def note(self, text: str) -> None: ...

    def round(self, scenario: Scenario, index: int, _left: object, _doing: str, **_: object) -> Finished:
        load = scenario.load
        noise = math.exp(self.random.normal(0.0, 0.1))
        moody = self.random.random() < 0.5
        broker_us = BROKER_US * self.times * noise
        capacity = CORES / (broker_us + CLIENT_US) * 1e6
        if self.mood == "stalls":
            capacity *= self.random.uniform(0.3, 1.0)
        rate = min(load.rate, capacity)
        result = self._result(load, rate, moody)
        cores = rate * broker_us / 1e6
        brokers = {"broker_cpu_cores.sum": cores, "broker_cpu_cores.max": cores / 3}
        brokers["broker_cpu_us_per_record"] = broker_us
        if self.mood == "compiling":
            brokers["broker_compile_share.max"] = 0.15
        assert result.sent is not None
        accounting = accounting_of(result.sent, [0], [result.sent.acked])
        found = round_flaws(load, result, accounting, brokers, shares_cores=True)
        short = not_sustained(load, result)
        done = round_of(index, result, accounting, brokers, found, short, own_brokers=True)
        return Finished(round=done, repeatable=bool(found) and all(flaw.again for flaw in found))

    def _result(self, load: Load, rate: float, moody: bool) -> LoadResult:
        acked = int(rate * WINDOW_S)
        used = rate * (BROKER_US * self.times) / 1e6 / CORES
        paced = load.kind == "paced"
        offered = int(load.rate * WINDOW_S) if paced else acked
        starved = self.mood == "starved" and moody
        waits_s = 0.004 * self.times / max(1 - used, 0.05) if rate >= load.rate else WINDOW_S / 2
        latency_s = waits_s if paced else 32 * 1024 / max(rate, 1.0)
        delay_s = (0.012 if starved else 0.0002) if paced else 0.0
        made = sent(
            attempted=offered + 100,
            acked=offered + 100,
            attempted_in_window=offered,
            acked_in_window=acked,
            acked_bytes_in_window=acked * 1024,
            pushback_s=0.0 if paced else 2.5,
            pushback_in_window_s=0.0 if paced else 2.5,
            stalled_in_window_s=0.8 if starved and not paced else 0.0,
            latency=histogram([latency_s] * 99 + [1.3 * latency_s]),
            schedule_delay=histogram([delay_s] * 100) if paced else "",
        )
        unsteady = self.mood == "unsteady" and moody
        growth = float(self.random.uniform(0.8, 1.4)) if unsteady else 1.0
        cpu = rate * CLIENT_US / 1e6
        made_of: dict[str, Any] = {"cpu_cores": cpu, "steady": not unsteady, "growth": growth, "window_s": WINDOW_S}
        values = load_result(sent=made, wake_delay_p99_ms=0.3, busiest_thread_cores=min(cpu, 0.9))
        return LoadResult(**{name: getattr(values, name) for name in values.__slots__} | made_of)


def verdict(times: float, mood: str, seed: int, held: Profile | None, canary: Canary) -> int:
    """Return 0, 1, 2 for a run that is green, undecided, red in its worst scenario."""
    busy = replace(QUIET, deflate_mib_per_s=45, others=0.5, busiest="backup")
    canary.quiet, canary.readings = QUIET, [QUIET, QUIET, busy] if mood == "backup" else []
    bench: Any = SlowBench(times, mood, np.random.default_rng(seed))
    setup: Any = FakeSetup(bench, tier=TIER)
    stop = GateStopRule(profile=held, rounds=TIER.rounds)
    measured = Rounds(setup, setup, run_id=f"r{seed}", stop=stop, canary=[QUIET] * 3)
    found = measured.measure([CAPPED_ROW, PACED_ROW])
    verdicts = [judge_scenario(one, held).verdict for one in found.values()]
    return max(2 if one.red else 0 if one.green else 1 for one in verdicts)


HELD = profile(
    threshold("records_per_s", CAPACITY, 0.3, name="capped"),
    threshold("broker_cpu_us_per_record", BROKER_US, 0.3, name="capped"),
    threshold("latency_ms.p99", 5.4, 0.5, name="paced"),
    threshold("broker_cpu_us_per_record", BROKER_US, 0.3, name="paced"),
)
SEEDS = range(12)


@pytest.mark.parametrize("mood", MOODS)
def test_the_share_of_red_rises_with_the_service_time(mood: str, canary: Canary, cores: Callable[[int], None]) -> None:
    cores(int(CORES))
    shares = []
    for times in SCALES:
        found = [verdict(times, mood, seed, HELD, canary) for seed in SEEDS]
        shares.append(sum(one == 2 for one in found) / len(found))
    assert shares[0] <= (0.1 if mood != "stalls" else 1.0), "unchanged brokers"
    assert shares == sorted(shares)
    assert shares[3:] == [1.0, 1.0], shares


def test_unchanged_brokers_are_green(canary: Canary, cores: Callable[[int], None]) -> None:
    cores(int(CORES))
    assert {verdict(1.0, "none", seed, HELD, canary) for seed in SEEDS} == {0}
    assert Verdict.PASS.green
