"""Loads of a comparison that were not valid, and metrics that were spoilt, by side. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.judge.scenario_case import invalid_reasons
from perfgate.judge.spoilt import spoilt
from perfgate.model import Comparison, Effect, MetricInfo, Round

MANY_TIMES, MANY = 10.0, 0.05
"""Failures come together, a burst of them after one stall: a share that is less many times larger, or a small one, may
be chance."""


def unsound_load(comparison: Comparison) -> tuple[Effect, tuple[str, ...]] | None:
    """Return BROKEN or INVALID with the reasons where a load was not valid, whatever it is judged by; else None."""
    reasons = tuple(
        f"{side}: {reason}"
        for side, measurement in (("baseline", comparison.baseline), ("candidate", comparison.candidate))
        for reason in invalid_reasons(measurement)
        if measurement.rounds and any(r.invalid for r in measurement.rounds)
    )
    if not reasons:
        return None
    return Effect.BROKEN if _only_candidate_failed(comparison) else Effect.INVALID, reasons


def spoilt_by_side(comparison: Comparison, metrics: Sequence[MetricInfo]) -> tuple[str, ...]:
    """Return why these metrics must not be judged although the loads were valid, by side; empty when they may."""
    sides = (("baseline", comparison.baseline), ("candidate", comparison.candidate))
    names = [metric.name for metric in metrics]
    return tuple(f"{side}: {name}: {why}" for name in names for side, m in sides if (why := spoilt(m, name)))


def _only_candidate_failed(comparison: Comparison) -> bool:
    """Return whether the candidate's brokers did not take, or keep, what was sent to them: wherever they run.

    Those of the baseline did, or failed to do so with clearly fewer records. What was only late, and happened on the
    baseline's side before, though not again, is of neither side.
    """
    before, after = comparison.baseline, comparison.candidate
    failed = [r for r in after.rounds if _failed(r)]
    if not failed or (any(map(_failed, before.rounds)) and not _clearly_more(after.rounds, before.rounds)):
        return False
    once = any(_failed(r) and any(flaw.late for flaw in r.flaws) for r in before.discarded)
    return not (once and all(r.only_late for r in failed))


def _failed(one: Round) -> bool:
    told = any(flaw.kind == "flaw" and flaw.whose == "brokers" and not flaw.again for flaw in one.flaws)
    return bool(told or one.broken or one.accounting.failed_total or one.accounting.unresolved)


def _clearly_more(after: Sequence[Round], before: Sequence[Round]) -> bool:
    """Return whether MANY of these records failed, and MANY_TIMES their share; False where failures are not counted."""
    shares = []
    for rounds in (after, before):
        attempted = sum(r.accounting.attempted for r in rounds)
        failed = sum(r.accounting.failed_total + r.accounting.unresolved for r in rounds)
        shares.append(failed / attempted if attempted else 0.0)
    return all(_counted(r) for r in before if _failed(r)) and shares[0] > max(MANY, MANY_TIMES * shares[1])


def _counted(one: Round) -> bool:
    """Return whether all that failed in the round is a number of records."""
    return bool(one.accounting.failed_total or one.accounting.unresolved)
