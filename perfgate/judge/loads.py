"""Loads of a comparison that were not valid, not taken, or measured again, by side. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.judge.claim import Ruling, ruled
from perfgate.judge.rates import AT_THE_CAP, at_its_cap
from perfgate.judge.rounds import arms_of, values_of
from perfgate.judge.scenario_case import invalid_reasons
from perfgate.judge.sequential import ERROR, INTERVAL_ERROR, looks_until
from perfgate.judge.statistics import tail
from perfgate.judge.units import whole_units
from perfgate.model import Comparison, Measurement, Round, Verdict
from perfgate.model.compared import HEARD_LATE, OUTLASTED, SATURATED, SENT_LATE, STOOD_STILL

MANY_TIMES, MANY = 10.0, 0.05
"""Failures come in bursts after a stall: a share that is fewer times larger, or smaller, may be chance."""


def unsound_load(comparison: Comparison) -> Ruling | None:
    """BROKEN or INVALID with the reasons where a load was not valid, whatever it is judged by; else None."""
    reasons = tuple(
        f"{side}: {reason}"
        for side, measurement in arms_of(comparison)
        if any(r.invalid for r in measurement.rounds)
        for reason in invalid_reasons(measurement)
    )
    if not reasons:
        return None
    return ruled(Verdict.BROKEN if _only_candidate_failed(comparison) else Verdict.INVALID, *reasons)


def _only_candidate_failed(comparison: Comparison) -> bool:
    """Whether only the candidate's brokers failed, or clearly more often: not by a lateness that both once had."""
    before, after = comparison.baseline, comparison.candidate
    failed = [r for r in after.rounds if _failed(r)]
    if not failed or (any(map(_failed, before.rounds)) and not _clearly_more(after.rounds, before.rounds)):
        return False
    once = any(_failed(r) and any(flaw.late for flaw in r.flaws) for r in before.discarded)
    return not (once and all(r.only_late for r in failed))


def _failed(r: Round) -> bool:
    """Whether brokers did not take, or keep, what was sent."""
    by_brokers = any(flaw.kind == "flaw" and flaw.whose == "brokers" and not flaw.again for flaw in r.flaws)
    return bool(by_brokers or r.broken or _counted(r))


def _clearly_more(after: Sequence[Round], before: Sequence[Round]) -> bool:
    """Whether MANY of these records failed, and MANY_TIMES their share; False where failures are not counted."""
    shares = []
    for rounds in (after, before):
        attempted = sum(r.accounting.attempted for r in rounds)
        failed = sum(r.accounting.failed_total + r.accounting.unresolved for r in rounds)
        shares.append(failed / attempted if attempted else 0.0)
    return all(_counted(r) for r in before if _failed(r)) and shares[0] > max(MANY, MANY_TIMES * shares[1])


def _counted(r: Round) -> bool:
    return bool(r.accounting.failed_total or r.accounting.unresolved)


CHANCE = "that may be chance"
RARELY = 0.05
"""The chance of this many flawed loads of a side, where both sides have them equally often."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Short:
    """The load that brokers did not take: of the baseline in most rounds, of the candidate in any (texts).

    `often`: in most rounds, or more than chance gives one of two equal sides. `clearly`: clearly more often.
    """

    before: str
    after: str
    often: bool
    clearly: bool


def short_of(comparison: Comparison) -> Short:
    declared, candidate = ([r.not_sustained for r in m.rounds if r.not_sustained] for m in comparison.sides)
    among = [len(m.rounds) for m in comparison.sides]
    counts = f"({len(candidate)} of {among[1]} rounds, as declared {len(declared)} of {among[0]})"
    chance = chance_of(len(candidate), among[1], len(declared), among[0])
    return Short(
        before=declared[0] if 2 * len(declared) > among[0] else "",
        after=f"{candidate[0]} {counts}" if candidate else "",
        often=2 * len(candidate) > among[1] or chance <= INTERVAL_ERROR,
        clearly=_chance_of_units(comparison) <= _error_of_this_look(comparison),
    )


def _chance_of_units(comparison: Comparison) -> float:
    """The chance of this many short rounds of the candidate, or pairs of clusters of whose rounds most are short."""
    size = comparison.rounds_per_unit if comparison.method == "pairs" else 1
    counts = list[int]()
    for measurement in (comparison.candidate, comparison.baseline):
        short = [bool(r.not_sustained) for r in measurement.rounds]
        units = [short[first : first + size] for first in range(0, len(short) - size + 1, size)]
        counts += [sum(2 * sum(unit) > size for unit in units), len(units)]
    return chance_of(*counts)


def _error_of_this_look(comparison: Comparison) -> float:
    """The chance of an error that a look at this many units may spend (perfgate.judge.sequential)."""
    units, planned = max(1, whole_units(comparison)), comparison.planned_units
    before, now = (0.0, *looks_until(units, max(units, planned), last=False, former=comparison.former_plans).spent)[-2:]
    return ERROR * (now - before)


def below_its_cap(comparison: Comparison) -> str:
    """In how many rounds the candidate did not reach a cap that both sides mostly reach; empty if by chance."""
    if not all(map(at_its_cap, comparison.sides)):
        return ""
    declared, candidate = (
        sum(rate < AT_THE_CAP * m.scenario.load.rate for rate in values_of(m.rounds, "records_per_s"))
        for m in comparison.sides
    )
    among = [len(m.rounds) for m in comparison.sides]
    if chance_of(candidate, among[1], declared, among[0]) > INTERVAL_ERROR:
        return ""
    return f"below its cap in {candidate} of {among[1]} rounds, as declared in {declared} of {among[0]}"


def chance_of(after: int, rounds_after: int, before: int, rounds_before: int) -> float:
    """The chance of as many short rounds of the candidate where both are short equally often (Fisher, one-sided)."""
    short = after + before
    ways = sum(
        math.comb(rounds_after, count) * math.comb(rounds_before, short - count)
        for count in range(after, min(short, rounds_after) + 1)
    )
    return ways / math.comb(rounds_after + rounds_before, short)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of flawed loads: how many there are of either side, in words, and the regression that they may hide."""

    flaws: tuple[str, ...]
    counts: str
    hides: str
    unit: str

    def count(self, measurement: Measurement) -> int:
        rounds = (*measurement.discarded, *measurement.rounds)
        return sum(any(flaw.kind in self.flaws for flaw in r.flaws) for r in rounds)


KINDS = (
    _Kind(
        (OUTLASTED,),
        "the records of {} bursts were still under way when the other side was measured, as declared of {}",
        "its brokers may stand still",
        "bursts",
    ),
    _Kind(
        (SENT_LATE, SATURATED, STOOD_STILL, HEARD_LATE),
        "{} of its loads were sent late or not in full, as declared {}",
        "its brokers may take the processors that send",
        "loads",
    ),
)


def may_hide_worse(comparison: Comparison) -> str:
    """That clearly more of the candidate was measured again, which may hide slower brokers; else empty."""
    for kind, candidate, declared in _counts(comparison):
        if chance_by_toss(candidate, declared) <= RARELY:
            counts = kind.counts.format(candidate, declared)
            return f"candidate: {counts}: {kind.hides}, and those {kind.unit} were measured again"
    return ""


def measured_again(comparison: Comparison) -> str:
    """How much was measured again on the candidate's side, where that is more than on the other; else empty."""
    for kind, candidate, declared in _counts(comparison):
        if candidate > declared:
            return f"candidate: {kind.counts.format(candidate, declared)}; those {kind.unit} were measured again"
    return ""


def _counts(comparison: Comparison) -> list[tuple[_Kind, int, int]]:
    return [(kind, kind.count(comparison.candidate), kind.count(comparison.baseline)) for kind in KINDS]


def chance_by_toss(more: int, fewer: int) -> float:
    """The chance that tosses of a coin give either side at least `more` of all."""
    return tail(more + fewer, fewer + 1)
