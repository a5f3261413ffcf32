"""Cases of one arm: the claims of a scenario about its own rounds. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

from perfgate.judge.claim import Case, Ruling, judge, load_modules, notes_on, worst
from perfgate.judge.claims.more_hosts import host_doubts, more_hosts
from perfgate.judge.faults.rules import judge_fault
from perfgate.judge.noise import late_by_machine, machine_doubts_by_round
from perfgate.judge.phrases import WARMING, joined
from perfgate.judge.rates import RATE_TAKEN, lower_cap_doubts
from perfgate.judge.rounds import FEWEST_SOUND, spoilt_metrics, starved_by_brokers
from perfgate.model import FaultScenario, Judgement, Measurement, Outcome, Profile, Round, Verdict
from perfgate.model.flaw import Doubt


class ScenarioCase(Case):
    """The rounds of a scenario with the profile's thresholds; `reasons`: why its load as a whole does not count.

    `whole`: all rounds. `measurement`: without those whose brokers may only have been late on a slow machine.
    """

    def __init__(self, measurement: Measurement, profile: Profile | None) -> None:
        self.scenario, self.profile, self.whole = measurement.scenario, profile, measurement
        self.thresholds = profile.thresholds.get(self.scenario.name, ()) if profile else ()
        self.machine = machine_doubts_by_round(measurement, profile.canary if profile else None)
        loaded = (*measurement.rounds, *measurement.one_host_fewer)
        self.broken = tuple(f"round {r.index}: {reason}" for r in loaded for reason in r.broken)
        self.reasons, self.measurement, self.excuse = invalid_reasons(measurement), measurement, ""
        if self.broken and all(flaw.late for r in loaded for flaw in r.flaws if flaw.broken):
            self.excuse = late_by_machine(measurement, [r.index for r in loaded if r.broken])
        if self.excuse:
            self.reasons = (*dict.fromkeys((*self.broken, *self.reasons)), self.excuse)
            self.measurement = replace(measurement, rounds=tuple(r for r in measurement.rounds if not r.broken))

    @abstractmethod
    def red(self) -> list[Judgement]:
        """Judgements that are REGRESSED although rounds do not count: their flaws do not explain them."""

    def in_spite(self, ruling: Ruling) -> Ruling:
        """The ruling, REGRESSED where rounds that count, or count in part, show that."""
        if ruling.verdict is not Verdict.INVALID or not self.reasons or not (red := self.red()):
            return ruling
        reasons = (*notes_on(red), *ruling.reasons)
        return Ruling(
            verdict=Verdict.REGRESSED, judgements=tuple(red), reasons=reasons, guard=ruling.guard, in_spite=True
        )


class PlainCase(ScenarioCase):
    """A scenario without a fault, with the claims of :mod:`perfgate.judge.claims` in their order."""

    def __init__(self, measurement: Measurement, profile: Profile | None) -> None:
        super().__init__(measurement, profile)
        sound = tuple(r for r in self.measurement.rounds if not r.invalid)
        counted = replace(self.measurement, rounds=sound) if len(sound) >= FEWEST_SOUND else self.measurement
        hosts = host_doubts(self.measurement) if self.reasons else ()
        self.doubts = (*hosts, *lower_cap_doubts(counted, self.thresholds))
        """What there is to doubt of every round."""
        self.published = profile is not None and profile.reference
        """Whether its thresholds are published figures, of another machine."""

    def doubts_by_round(self, rounds: Sequence[Round], *common: Doubt) -> list[tuple[Doubt, ...]]:
        """All doubts about each round: its flaws, the machine beside it, and those that are `common`."""
        return [(*r.doubts, *self.machine.get(r.index, ()), *common) for r in rounds]

    def judgements(self) -> list[Judgement]:
        judged = list[Judgement]()
        for of_scenario in claims():
            judged += of_scenario(self, judged)
        return judged

    def test(self) -> Ruling:
        judged = self.judgements()
        known = [f"{judgement.metric}." for judgement in judged if judgement.verdict is not Verdict.MISSING]
        notes = notes_on(judged)
        notes += [
            f"{name} is not valid: {reason}"
            for name, reason in spoilt_metrics(self.measurement).items()
            if not any(metric.startswith(f"{name}.") for metric in known)
        ]
        notes += filter(None, [self.whole.enough])
        verdict = worst(judgement.verdict for judgement in judged)
        return Ruling(verdict=verdict, judgements=tuple(judged), reasons=tuple(notes))

    def red(self) -> list[Judgement]:
        """The broken claims, where enough rounds were measured."""
        if len(self.measurement.rounds) < FEWEST_SOUND:
            return []
        return [judgement for judgement in self.judgements() if judgement.verdict is Verdict.REGRESSED]


class FaultCase(ScenarioCase):
    """A scenario with a fault, whose cost is judged round by round: a single round counts."""

    @property
    def fault(self) -> FaultScenario:
        assert isinstance(self.scenario, FaultScenario)
        return self.scenario

    def test(self) -> Ruling:
        return judge_fault(self.fault, self.measurement, self.thresholds)

    def red(self) -> list[Judgement]:
        if not any(r.failover for r in self.measurement.rounds):
            return []
        return [judgement for judgement in self.test().judgements if judgement.verdict is Verdict.REGRESSED]


Claim = Callable[[PlainCase, Sequence[Judgement]], list[Judgement]]
"""It gets the judgements of the claims before it."""
_CLAIMS: dict[int, Claim] = {}


def claim(place: int) -> Callable[[Claim], Claim]:
    """Register a claim about every scenario without a fault, at its place in the order."""

    def register(of_scenario: Claim) -> Claim:
        _CLAIMS[place] = of_scenario
        return of_scenario

    return register


def claims() -> list[Claim]:
    load_modules("perfgate.judge.claims")
    return [_CLAIMS[place] for place in sorted(_CLAIMS)]


def judge_scenario(measurement: Measurement, profile: Profile | None) -> Outcome:
    kind = FaultCase if measurement.scenario.has_fault else PlainCase
    ruling = judge(kind(measurement, profile))
    return ruling.outcome(measurement.scenario.name, more_hosts=more_hosts(measurement))


def unsettled(measurement: Measurement) -> str:
    """Why it cannot be green; else empty: warming brokers, a limit of the hosts, a probing rate not always taken."""
    limit, rounds = more_hosts(measurement), len(measurement.rounds)
    short = sum(bool(r.not_sustained) for r in measurement.rounds)
    reasons = [f"{WARMING}: {measurement.warming}" if measurement.warming else "", starved_by_brokers(measurement)]
    if limit and limit.finding == "unknown":
        reasons.append(limit.words)
    if measurement.scenario.load.probes and 0 < short < rounds:
        reasons.append(f"the brokers did not take the whole rate in {short} of {rounds} rounds")
    return joined(*reasons)


def no_longer_taken(outcome: Outcome, measurement: Measurement, former: Sequence[float]) -> Outcome:
    """INCONCLUSIVE where no round took a probing rate that a run like this (`former`, records/s) took; else as is."""
    load, rounds, most = measurement.scenario.load, measurement.rounds, max(former, default=0.0)
    taken = not rounds or not all(r.not_sustained for r in rounds)
    if outcome.verdict is not Verdict.MISSING or not load.probes or most < RATE_TAKEN * load.rate or taken:
        return outcome
    reason = f"{rounds[0].not_sustained}; a former run like this one took {most:,.0f} records/s"
    return replace(outcome, verdict=Verdict.INCONCLUSIVE, reasons=(reason, *outcome.reasons))


def shows_nothing(measurement: Measurement) -> str:
    """Why this machine cannot show what relations state; else empty: a rate is never taken, or nothing times out."""
    load = measurement.scenario.load
    if load.probes and measurement.rounds and all(r.not_sustained for r in measurement.rounds):
        return "offers more than the brokers take here"
    shares = [r.metrics.get("timed_out_share") for r in measurement.rounds]
    if load.times_out and shares and not any(share is None or share > 0 for share in shares):
        return "no record timed out here: the brokers take the whole rate"
    return ""


def invalid_reasons(measurement: Measurement) -> tuple[str, ...]:
    """Why the measurement must not be judged; empty when it may."""
    if not measurement.rounds:
        return ("no round was measured",)
    reasons = [f"round {r.index}: {reason}" for r in measurement.rounds for reason in r.invalid]
    if measurement.scenario.has_fault:
        return tuple(reasons)  # the cost of a fault is judged round by round: a single round suffices
    if not reasons and len(measurement.rounds) < 2:
        reasons = ["one round was measured; a spread needs two"]
    if (limit := more_hosts(measurement)) and limit.finding == "saturated":
        reasons.append(limit.words)
    return tuple(reasons)
