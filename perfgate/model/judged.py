"""Thresholds and profiles; verdicts, judgements and outcomes; exit codes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from perfgate.model.compared import AS_USUAL, Deciding, RecordedPairs
from perfgate.model.metrics import Count, MetricInfo
from perfgate.model.system import System, system_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Threshold:
    """What a metric of a scenario must reach: `baseline`, give or take the share `reach`.

    The reach is the stated `tolerance`, or a wider share that follows from `runs` runs with a spread of `spread`.
    """

    scenario: str
    metric: MetricInfo
    baseline: float
    tolerance: float
    spread: float = 0.0
    runs: int = 0
    reach: float
    anchor: float | None = None
    """The best baseline so far; only a stated reason makes it worse."""
    rate: float = 0.0
    """The offered rate (records/s) of its recording, where that came from a knee; 0: the scenario declares it."""

    @property
    def limit(self) -> float:
        """The worst value that still passes."""
        return self.baseline * (1 - self.metric.sign * self.reach)


@dataclass(frozen=True, kw_only=True, slots=True)
class Published:
    """A figure that was published of a scenario: shown beside what is measured, never judged."""

    profile: str
    hardware: str
    metric: str
    value: float
    differs: str = ""
    """What its settings differ in from the scenario's, as far as the source states them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """A class of target and machine with absolute thresholds. It is picked where all `facts` match; a `reference`
    only on request."""

    name: str
    facts: Mapping[str, str]
    thresholds: Mapping[str, tuple[Threshold, ...]]
    path: str
    canary: Mapping[str, float] = field(default_factory=dict)
    """The canary's readings when the baselines were recorded, by name."""
    reference: bool = False
    published: Mapping[str, tuple[Published, ...]] = field(default_factory=dict)
    """Published figures, by scenario."""
    pairs: Mapping[str, tuple[RecordedPairs, ...]] = field(default_factory=dict)
    """Recorded A/A pairs, by scenario."""

    @property
    def system(self) -> System:
        """The system that its figures are of."""
        return system_of(self.facts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """The least (better higher) or most (better lower) ratio to a reference's metric; `own`: of this scenario alone."""

    metric: MetricInfo
    limit: float
    own: bool


class Verdict(enum.Enum):
    """The seven outcomes; only PASS and IMPROVED are green, only REGRESSED and BROKEN are red."""

    PASS = "PASS"
    """Within its limits."""
    IMPROVED = "IMPROVED"
    """Better than its baseline by more than the tolerance, in valid rounds."""
    MISSING = "MISSING"
    """No threshold is stored for this target and machine; relations and validity are judged all the same."""
    INCONCLUSIVE = "INCONCLUSIVE"
    """Too noisy to tell, too good to be believed, brokers still warming up, or another machine than the thresholds'."""
    INVALID = "INVALID"
    """The load was not valid: the generator was the limit, records are unaccounted for, or the target was not well."""
    REGRESSED = "REGRESSED"
    """Beyond its limit in two looks, and not by chance; or a paced load that brokers did not take."""
    BROKEN = "BROKEN"
    """Brokers failed: one died, sends failed, or acknowledged records are lost."""

    @property
    def green(self) -> bool:
        """Whether a run of only this verdict may exit 0."""
        return self in (Verdict.PASS, Verdict.IMPROVED)

    @property
    def red(self) -> bool:
        """Whether the brokers are worse than they must be: slower, or they failed."""
        return self in (Verdict.REGRESSED, Verdict.BROKEN)

    @property
    def sound(self) -> bool:
        """Whether its figures can be used."""
        return self not in (Verdict.INVALID, Verdict.BROKEN)


UNSOUND = frozenset(verdict.value for verdict in Verdict if not verdict.sound)
"""The verdicts, as in run.json, whose figures cannot be used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """One metric (or relation) held against its limit. `spread` is relative: 0.08 is 8 %."""

    verdict: Verdict
    metric: str
    measured: float | None = None
    spread: float | None = None
    interval: tuple[float, float] | None = None
    limit: float | None = None
    baseline: float | None = None
    tolerance: float | None = None
    reach: float | None = None
    against: str = "its baseline"
    """What `baseline` is, in words."""
    reason: str = ""
    step: str = ""
    """Of a relation over a range: the two scenarios whose ratio it is, `of / over`."""


Finding = Literal["confirmed", "saturated", "unknown"]


@dataclass(frozen=True, kw_only=True, slots=True)
class MoreHosts:
    """What one load host more made of a load that is not paced: its rate on all `hosts` over that on `fewer_hosts`.

    `saturated`: it rose by more than `at_most` times, so that generators were the limit; `confirmed`: it did not;
    `unknown`: that cannot be decided. Values and intervals are None where they were not measured.
    """

    finding: Finding
    metric: str
    hosts: Count
    fewer_hosts: Count
    value: float | None = None
    interval: tuple[float, float] | None = None
    fewer_value: float | None = None
    fewer_interval: tuple[float, float] | None = None
    ratio: float | None = None
    ratio_interval: tuple[float, float] | None = None
    at_most: float
    words: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The verdict over a scenario or a relation, with every judgement that led to it."""

    name: str
    verdict: Verdict
    judgements: tuple[Judgement, ...]
    reasons: tuple[str, ...] = ()
    rounds: tuple[float, ...] = ()
    first_look: Outcome | None = None
    """The first, red outcome, where a confirmation run was made."""
    message: str = field(default="", compare=False)
    published: tuple[Published, ...] = field(default=(), compare=False)
    """Published figures of the scenario, from other hardware."""
    paired: bool = True
    """Of a relation: whether its two scenarios were measured on the same cluster, round by round."""
    more_hosts: MoreHosts | None = field(default=None, compare=False)
    """Whether one load host more changed the result, where that was measured."""
    steps: tuple[Outcome, ...] = ()
    """Of a relation over a range: the outcomes of its steps, in their order."""


class Effect(enum.Enum):
    """What a change does to a scenario; only SAME and FASTER are green."""

    BROKEN = "BROKEN"
    """Sends fail, records are lost or brokers end, with the change and not without it."""
    SLOWER = "SLOWER"
    """Off zero on the bad side by more than chance brings in 1 of 1,000 comparisons."""
    FASTER = "FASTER"
    """The same on the good side."""
    SAME = "SAME"
    """The 95 % interval lies within the margin either way."""
    INCONCLUSIVE = "INCONCLUSIVE"
    """The budget is spent, and a difference is neither shown nor excluded."""
    INVALID = "INVALID"
    """A load was not valid; the reason says which side."""

    @property
    def green(self) -> bool:
        """Whether a comparison of only this result may exit 0."""
        return self in (Effect.SAME, Effect.FASTER)

    @property
    def red(self) -> bool:
        """Whether the change makes the scenario worse: slower, or sends fail."""
        return self in (Effect.SLOWER, Effect.BROKEN)


SEVERITY = (
    "BROKEN",
    "REGRESSED",
    "SLOWER",
    "INVALID",
    "INCONCLUSIVE",
    "MISSING",
    "FASTER",
    "IMPROVED",
    "SAME",
    "PASS",
)
"""Verdicts and effects, the worst first: what is red stays red next to what does not count."""


def severity(result: Verdict | Effect) -> int:
    """Return the place of a verdict or an effect among all, from the worst on."""
    return place(result.value)


def place(value: str, of_others: int = len(SEVERITY)) -> int:
    """Return the place of a verdict's or an effect's value among all, the worst first; `of_others`: of other texts."""
    return SEVERITY.index(value) if value in SEVERITY else of_others


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricEffect:
    """The share by which a metric of the candidate differs from the baseline: -0.079 is 7.9 % less.

    `notable`: not by chance, given all secondary metrics of the run (false-discovery rate).
    """

    metric: MetricInfo
    estimate: float
    interval: tuple[float, float]
    p_value: float
    notable: bool = False
    verdict: Effect | None = None
    """By this metric alone, where a run decides by it on request."""

    @property
    def worse(self) -> bool:
        return (self.estimate < 0) == (self.metric.better == "higher")


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonOutcome:
    """What a change does to a scenario: the primary metric decides, the others are shown.

    `more_minutes`: what an INCONCLUSIVE comparison would still need in 8 of 10 cases; None: unknown. `detectable`: the
    smallest slowdown (a share) that such units show in 8 of 10 comparisons. `scatter`: what the scatter between pairs
    rests on besides those measured. `paths_ms`: the client's round trip to each of two existing clusters.
    `unit_effects`: of each unit, the share by which the primary metric differed.
    """

    name: str
    effect: Effect
    primary: MetricEffect | None
    others: tuple[MetricEffect, ...] = ()
    units: int = 0
    pairs: int = 0
    minutes: float = 0.0
    detectable: float | None = None
    more_minutes: float | None = None
    unit_effects: tuple[float, ...] = ()
    reasons: tuple[str, ...] = ()
    scatter: str = ""
    paths_ms: tuple[float, float] | None = None
    decides: Deciding = AS_USUAL
    message: str = field(default="", compare=False)


class ExitCode(enum.IntEnum):
    """How a run ended, for CI; :func:`perfgate.judge.run_end.ending` decides it. Other codes are pytest's own."""

    GREEN = 0
    """All that was judged is within its limits."""
    RED = 1
    """Something is REGRESSED, SLOWER or BROKEN."""
    ENDED_EARLY = 2
    """Wrong usage, brokers that cannot be had, or interrupted; one line says what to do."""
    NOT_RECORDED = 3
    """Nothing is red, and run.json could not be written; or green, and a report could not be written."""
    UNDECIDED = 6
    """Nothing is red, but something was inconclusive, invalid, not measured to its end, or judged against nothing."""
    LEFT_BEHIND = 7
    """Not all that was changed on real brokers could be put back; this comes before any verdict."""
    UNHEALTHY = 8
    """Nothing is red, but measuring stopped since real brokers were no longer healthy."""
    ERROR = 9
    """Nothing is red, but an error of the suite or a plugin kept the run from its verdict."""


UNFINISHED: Mapping[int, str] = {
    ExitCode.ENDED_EARLY: "the run was interrupted",
    ExitCode.LEFT_BEHIND: "not all that the run changed was put back",
    ExitCode.UNHEALTHY: "the target became unhealthy",
    ExitCode.ERROR: "an error kept it from its verdict",
}
"""Why a run with such an end is no ground for a decision."""
JUDGED = (ExitCode.GREEN, ExitCode.RED, ExitCode.UNDECIDED)
"""Of a run that came to its end, with a verdict or undecided."""
REPORTED = (*JUDGED, ExitCode.LEFT_BEHIND, ExitCode.UNHEALTHY, ExitCode.ERROR)
"""Of a run of which an HTML report is built; others were refused or broken off, or are not of the gate."""
