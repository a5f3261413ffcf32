"""The rules over what time alone does to a long load: p99, CPU per record and memory at its end. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence

from perfgate.faults.time import GROWN
from perfgate.judge.faults.figures import weighed
from perfgate.model import FaultScenario, Judgement, Measurement, Verdict

GROWN_OF = {"cpu_per_record_growth": "CPU", "memory_growth": "memory"}
"""Of which of the brokers' figures growth is told; that of the p99 is of the records' own."""
THROUGHOUT = "latency_during_ms.p99"
"""The p99 of a long load from its beginning to its end: what is slow all the time does not grow."""
RATE = "records_per_s"
LINE_S = 30.0
"""What lasts less long makes no line (FEWEST parts of LEAST_S in perfgate/measure/faults/growth.py)."""


def told_of(measurement: Measurement, metric: str) -> bool:
    """Return whether any round has the figure."""
    return any(metric in r.metrics for r in measurement.rounds)


def untold_growth(row: FaultScenario, measurement: Measurement) -> dict[str, str]:
    """Return what of a long load nobody could tell the growth of, and why: the source has no such figure.

    One that it has, and did not tell this time, is none of these.
    """
    if not row.fault.about.harmless:
        return {}
    found = {}
    for name, figure in GROWN_OF.items():
        told = [(r.untold.get(figure, ""), r.usage_unavailable) for r in measurement.rounds]
        never = [why for why, this_time in told if why and why != this_time]
        if len(never) == len(measurement.rounds) and not told_of(measurement, name):
            found[name] = never[0]
    return found


def lacking_growth(row: FaultScenario, measurement: Measurement, held: Collection[str]) -> list[Judgement]:
    """Return a judgement of each figure whose growth should be known of a long load, and is not."""
    if not row.fault.about.harmless or row.fault.hold_s < LINE_S:
        return []
    unknown = [name for name in GROWN if name not in held and not told_of(measurement, name)]
    return [
        Judgement(verdict=Verdict.INCONCLUSIVE, metric=name, reason=growth_unknown(measurement, name))
        for name in unknown
        if name not in untold_growth(row, measurement)
    ]


def lacking_level(row: FaultScenario, held: Collection[str]) -> list[Judgement]:
    """Return a judgement where neither a latency nor the rate of a long load is stored, so that only growth is held."""
    if not row.fault.about.harmless or any(name == RATE or name.startswith("latency_") for name in held):
        return []
    reason = "no threshold: whether it was slow throughout is not known"
    return [Judgement(verdict=Verdict.MISSING, metric=THROUGHOUT, reason=reason)]


def growth_unknown(measurement: Measurement, metric: str) -> str:
    """Return why it is not known whether a figure of a long load grew."""
    lacking = [r.untold.get(GROWN_OF.get(metric, "")) for r in measurement.rounds if metric not in r.metrics]
    why = next(filter(None, lacking), "was not told of every part of the time")
    return f"{why}: whether it grew is not known"


def grown(measurement: Measurement, metric: str) -> Judgement:
    """Return whether time alone made a figure worse: by less than a machine may drift, by more, or by far more."""
    doubtful, limit = GROWN[metric]

    def rule(values: Sequence[float]) -> Judgement:
        if not values:
            return Judgement(verdict=Verdict.INCONCLUSIVE, metric=metric, reason=growth_unknown(measurement, metric))
        centre = statistics.median(values)
        verdict = Verdict.REGRESSED if centre > limit else Verdict.INCONCLUSIVE if centre > doubtful else Verdict.PASS
        reason = f"x {centre:.2f} from the start of the load to its end; up to {doubtful:g} may be the machine's drift"
        return Judgement(verdict=verdict, metric=metric, measured=centre, limit=limit, reason=reason)

    return weighed(measurement, metric, rule)
