"""Records lost in one round ended as exit 6 when another round was INVALID, or the machine noisy."""

from dataclasses import replace

import pytest

from perfgate.judge.scenario_case import judge_scenario
from perfgate.judge.wording import scenario_message
from perfgate.measure.assembly import unmeasured
from perfgate.model import CanaryReading, Measurement, Verdict
from tests.harness.build import flawed
from tests.harness.build.faults import faulty, history, measured

INVALID = "the generator was late before the fault already"
BUSY = tuple(CanaryReading(deflate_mib_per_s=60, loopback_per_s=9000, pressure=0.9, steal=0.5) for _ in range(4))


def rounds(*kinds: str) -> Measurement:
    """Return a measurement with rounds that are "good", have "lost" records, are "invalid", both, or "unmeasured"."""
    taken = measured(faulty(), *(history(lose=3 if "lost" in kind else 0) for kind in kinds))
    found = []
    for kind, one in zip(kinds, taken.rounds, strict=True):
        if kind == "unmeasured":
            found.append(unmeasured(one.index, "the cluster did not get well"))
        else:
            found.append(flawed(one, invalid=(INVALID,) if "invalid" in kind else ()))
    return replace(taken, rounds=tuple(found))


@pytest.mark.parametrize(
    ("kinds", "verdict"),
    [
        (("good", "good"), Verdict.PASS),
        (("good", "invalid"), Verdict.INVALID),
        (("good", "unmeasured"), Verdict.INVALID),
        (("lost",), Verdict.REGRESSED),
        (("lost", "good"), Verdict.REGRESSED),
        (("lost", "invalid"), Verdict.REGRESSED),
        (("invalid", "lost"), Verdict.REGRESSED),
        (("lost", "unmeasured"), Verdict.REGRESSED),
        (("lost and invalid",), Verdict.REGRESSED),
        (("lost and invalid", "good", "unmeasured"), Verdict.REGRESSED),
    ],
)
@pytest.mark.parametrize("canary", [(), BUSY])
def test_a_lost_record_is_red_whatever_the_other_rounds_are(
    kinds: tuple[str, ...], verdict: Verdict, canary: tuple[CanaryReading, ...]
) -> None:
    taken = replace(rounds(*kinds), canary=canary)
    outcome = judge_scenario(taken, None)
    if canary and kinds == ("good",):
        return
    if any("lost" in kind for kind in kinds) or not canary:
        assert outcome.verdict is verdict
    if verdict is Verdict.REGRESSED:
        message = scenario_message(outcome, taken, None)
        assert "3 lost" in message or "6 lost" in message
        assert "its settings promise" in message
