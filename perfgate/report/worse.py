"""Which new baselines are worse than the stored ones, and so need a reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfgate.judge.phrases import number, percent
from perfgate.judge.rates import most_off
from perfgate.judge.statistics import MEDIAN_ERROR_FACTOR
from perfgate.model import Profile, Threshold

if TYPE_CHECKING:
    from perfgate.report.proposal import Proposed


def worse(found: Sequence[Proposed], profile: Profile | None) -> dict[Proposed, str]:
    """Return the new baselines that need a reason, with what makes them worse.

    They are worse than the stored ones beyond both errors, or than their anchor, or of a load that is lighter. The
    error of a median of runs is MEDIAN_ERROR_FACTOR spreads over the root of their number. The anchor is what many
    small steps, each within its error, add up against: at most the tolerance.
    """
    texts = {}
    for new in found:
        old = stored(new, profile)
        if old is None:
            continue
        sign = old.metric.sign
        name, anchor = f"{new.scenario} {new.metric}", old.anchor or old.baseline
        loss, sunk = (sign * (1 - new.baseline / from_) for from_ in (old.baseline, anchor))
        error = MEDIAN_ERROR_FACTOR * math.hypot(
            new.spread / math.sqrt(len(new.values)), old.spread / math.sqrt(max(1, old.runs))
        )
        if new.rate and new.rate < old.rate * (1 - most_off(old)):
            texts[new] = f"{name}: recorded at {new.rate:,.0f} records/s, the stored baseline at {old.rate:,.0f}"
        elif loss > error:
            texts[new] = (
                f"{name}: {percent(loss)} worse than the stored baseline, more than its error of {percent(error)}"
            )
        elif sunk > old.tolerance:
            texts[new] = (
                f"{name}: {percent(sunk)} worse than its anchor {number(anchor)}, more than {percent(old.tolerance)}"
            )
    return texts


def stored(new: Proposed, profile: Profile | None) -> Threshold | None:
    """Return what a profile holds of the metric."""
    held = profile.thresholds.get(new.scenario, ()) if profile else ()
    return next((threshold for threshold in held if threshold.metric.name == new.metric), None)
