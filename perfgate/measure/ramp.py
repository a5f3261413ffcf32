"""Search for the knee, the highest rate that meets the service level, by many paced loads."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from perfgate.measure.assembly import Finished, unmeasured
from perfgate.model import COMPILING, DECIDES_PACED, Accounting, Load, Round, Scenario, Step, StepPart
from perfgate.model.flaw import NOTHING, Doubt, Flaw, excused, from_doubts

LEAST_SHARE = 0.01
"""The first step, as a share of the highest rate that may be offered: no record waits for another at it."""
GROWTH = 2.0
RESOLUTION = 1.05
"""Ratio of the lowest rate that missed the service level to the knee, at most."""
AROUND = 1.25
"""The first step of a later round lies this many times below the knee of the round before."""
BELOW = 0.9
"""The share of the knee at which the service level must be met as well."""

Meets = Callable[[float, StepPart], bool]
"""Whether the service level is met at a rate, in records/s."""


def find_knee(meets: Meets, most: float, about: float | None = None) -> float | None:
    """The highest rate up to `most` that meets the service level, in records/s; None when the first does not.

    Rates double until one is missed (or, `about` a knee that is known, move by less), then the gap is bisected to
    RESOLUTION. What is left is measured once more, and BELOW of it; where either is missed the same is tried a
    RESOLUTION lower, then two, four and so on, and last between the rate at which both hold and the one before: else
    noise puts the knee a third too low. `most` means: at least that.
    """
    least = most * LEAST_SHARE
    if not meets(least, "unloaded"):
        return None
    low, high = _bracket(meets, least, most, about)
    while high > low * RESOLUTION:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if meets(middle, "bisection") else (low, middle)

    def holds(rate: float) -> bool:
        return meets(rate, "confirmation") and meets(BELOW * rate, "below")

    missed = low
    for steps in itertools.count():
        if low <= least or holds(low):
            break
        missed, low = low, max(least, low / RESOLUTION ** (2**steps))
    while missed > low * RESOLUTION**2:
        middle = math.sqrt(low * missed)
        low, missed = (middle, missed) if holds(middle) else (low, middle)
    return low


def _bracket(meets: Meets, least: float, most: float, about: float | None) -> tuple[float, float]:
    """A rate that met the service level and a higher rate that did not, or `most` twice."""
    factor = AROUND**2 if about else GROWTH
    rate = min(most, max(about / AROUND, least) if about else least * GROWTH)
    if meets(rate, "step"):
        while rate < most:
            low, rate = rate, min(most, rate * factor)
            if not meets(rate, "step"):
                return low, rate
        return most, most
    while True:
        high, rate = rate, max(least, rate / factor)
        if rate == least or meets(rate, "step"):
            return rate, high


UNLOADED_TIMES = 10.0
"""The service level: a p99 of at most this many times that at the first step, no record lost, and what is offered is
taken (RATE_REACHED of flaw.py)."""
UNLOADED_STEPS = 3
"""The first step of a run's first round is measured this often, and the middle p99 of all first steps so far counts:
that of one scatters by a fifth either way, and the knee with it wherever the curve is flat."""
PROBE, PROBES = 2.0, 4
"""Where the generator was the limit the rate rises by this factor, this often, until brokers miss the level."""
KNEE, UNLOADED = "knee_records_per_s", "unloaded_latency_ms.p99"
TRIES = 3
"""A step that the generator alone made flawed is measured at most this often."""

Measure = Callable[[Scenario, str], Finished]
"""Measures a paced load; the text names it in the progress line."""


class _Broken(Exception):
    """A step shows something that no rate excuses; its round holds the reason."""

    def __init__(self, broken_round: Round) -> None:
        super().__init__()
        self.round = broken_round


@dataclass
class _Search:
    scenario: Scenario
    measure: Measure
    unloaded: list[float]
    """The p99 in ms of the first steps so far: those of earlier rounds, then this round's."""

    def __post_init__(self) -> None:
        self.steps: list[Step] = []
        self.met: list[tuple[float, Round]] = []
        self.slow = False  # whether the last step missed by its p99 alone

    def meets(self, rate: float, part: StepPart) -> bool:
        """Measure a step; return whether it meets the service level. One that is only too slow is measured again: where
        a pause of the machine spoils one in seven a search of twenty would end far below the knee."""
        for _ in range(UNLOADED_STEPS if part == "unloaded" and not self.unloaded else 1):
            if not (self._try(rate, part) or (self.slow and self._try(rate, part))):
                return False
            if part == "unloaded":
                self.unloaded.append(self.steps[-1].metrics[DECIDES_PACED])
        return True

    def _try(self, rate: float, part: StepPart) -> bool:
        """Measure a step; return whether it meets the service level, and note whether only its p99 does not."""
        scenario = replace(self.scenario, load=Load(kind="paced", rate=rate))
        for _ in range(TRIES):
            finished = self.measure(scenario, f"{part}, {rate:,.0f} records/s:")
            step_round = finished.round
            # Sent late, which makes latencies longer and no shorter, and quick enough all the same.
            met_late = part != "unloaded" and not step_round.invalid and not self._missed(step_round, part)
            # By more than the generator's own lateness explains.
            p99_ms = excused(step_round.metrics.get(DECIDES_PACED, 0.0), -1, step_round.doubts, DECIDES_PACED)
            too_slow = bool(step_round.not_sustained) or p99_ms > self._most_ms(part)
            brokers_missed = too_slow and not step_round.invalid
            if met_late or brokers_missed or not finished.repeatable:
                break
        if _wrong_at_any_rate(finished, scenario.groups):
            raise _Broken(step_round)
        missed, by_generator = self._missed(step_round, part), False
        if finished.repeatable and not met_late and not brokers_missed:
            missed, by_generator = next(iter((*step_round.invalid, *step_round.invalid_metrics.values()))), True
        if not missed:
            self.met.append((rate, step_round))
        self.steps.append(
            Step(
                rate=rate,
                part=part,
                metrics=step_round.metrics,
                accounting=step_round.accounting,
                received=step_round.reading.received if step_round.reading else None,
                missed=missed,
                by_generator=by_generator,
            )
        )
        self.slow = bool(missed) and not (by_generator or step_round.invalid or step_round.not_sustained)
        return not missed

    def _missed(self, step_round: Round, part: StepPart) -> str:
        if step_round.invalid:
            return step_round.invalid[0]
        if step_round.not_sustained:
            return step_round.not_sustained
        p99_ms, most_ms = step_round.metrics[DECIDES_PACED], self._most_ms(part)
        if p99_ms <= most_ms:
            return ""
        stated = self.scenario.load.level_p99_ms
        why = "stated" if stated else f"{UNLOADED_TIMES:g} times the p99 of the first step"
        return f"p99 {p99_ms:,.1f} ms, more than the {most_ms:,.1f} ms that are {why}"

    def _most_ms(self, part: StepPart) -> float:
        """The p99 that a step may have; infinite at the first where none is stated."""
        if stated_ms := self.scenario.load.level_p99_ms:
            return stated_ms
        return math.inf if part == "unloaded" else UNLOADED_TIMES * median(self.unloaded)


def _wrong_at_any_rate(finished: Finished, groups: int) -> bool:
    """Whether the round shows more than a rate that is too high: a record lost, a load that could not be made. At that,
    sends may time out or lack an outcome, and replicas or consumers fall behind."""
    step_round, accounting = finished.round, finished.round.accounting
    parts = accounting.partitions or ((accounting.acked, accounting.offset_delta),)
    reading = step_round.reading
    wrongly_read = reading and any(
        (reading.corrupt, reading.foreign, reading.duplicated, reading.reordered, reading.missed)
    )
    wrong = any(flaw.broken and not flaw.late for flaw in step_round.flaws)
    if any(moved < acked for acked, moved in parts) or wrongly_read or wrong:
        return True
    # On brokers that others use too, these may be to blame.
    own_late = all(flaw.broken and flaw.late for flaw in step_round.flaws if not flaw.metrics)
    behind = reading is not None and reading.received < groups * accounting.acked
    late = accounting.failed_total or accounting.unresolved or behind or own_late
    return bool(step_round.invalid) and not finished.repeatable and not late


@dataclass(frozen=True, slots=True)
class Known:
    """Results of earlier rounds of a ramp: the last knee in records/s, and the p99 in ms of all first steps."""

    knee: float | None = None
    unloaded_ms: tuple[float, ...] = ()


UNKNOWN = Known()


def ramp_round(
    measure: Measure, scenario: Scenario, index: int, known: Known = UNKNOWN, *, own_brokers: bool
) -> Finished:
    """The round: the curve as its steps, and the metrics of the step at the knee, which the generator must not bound.
    `own_brokers`: no other client uses them, so that taking no rate is a result."""
    search = _Search(scenario, measure, list(known.unloaded_ms))
    try:
        knee = find_knee(search.meets, scenario.load.rate, known.knee)
        limited = () if knee is None else _limited_by_generator(search, knee)
    except _Broken as error:
        broken = replace(error.round, index=index, steps=tuple(search.steps))
        return Finished(round=broken, repeatable=False)
    if knee is None:
        return Finished(round=_no_knee(search, index, own_brokers=own_brokers), repeatable=False)
    at_knee = next(whole for rate, whole in reversed(search.met) if rate == knee)
    whole = replace(
        at_knee,
        index=index,
        metrics={
            **at_knee.metrics,
            KNEE: knee,
            UNLOADED: median(search.unloaded),  # what the level was, so that its threshold holds it
        },
        accounting=_summed(search.steps),
        steps=tuple(search.steps),
        flaws=(*at_knee.flaws, *from_doubts(limited, whole=False)),
    )
    return Finished(round=whole, repeatable=False)


def _limited_by_generator(search: _Search, knee: float) -> tuple[Doubt, ...]:
    """The doubt that the generator was the limit just above the knee, which can be as high as the next rate that
    brokers missed themselves. Where none is known one is looked for, PROBES times."""
    beyond = min((s for s in search.steps if s.missed and s.rate > knee), key=lambda s: s.rate, default=None)
    if beyond is None or not beyond.by_generator:
        return ()
    most, rate, met = search.scenario.load.rate, beyond.rate, knee
    for _ in range(PROBES):
        if rate >= most or _missed_by_brokers(search, met):
            break
        rate = min(most, rate * PROBE)
        if search.meets(rate, "step"):
            met = rate
    bound = _missed_by_brokers(search, met)
    text = f"at {beyond.rate:,.0f} records/s the generator was the limit: {beyond.missed}"
    if bound:
        text += f"; {bound.rate:,.0f} it sent in time, and brokers missed the level: {bound.missed}"
    factor = bound.rate / knee if bound else None
    return (Doubt(kind="generator", whose="load", text=text, factor=factor, metrics=(KNEE,)),)


def _missed_by_brokers(search: _Search, knee: float) -> Step | None:
    """The lowest rate above the knee that brokers missed with the generator in time."""
    missed = (s for s in search.steps if s.missed and s.rate > knee and not s.by_generator)
    return min(missed, key=lambda s: s.rate, default=None)


def known_after(ramp: Round, known: Known) -> Known:
    """What is known after the round; of brokers that still compiled, or missed the level, no first steps."""
    knee = known.knee if ramp.invalid else ramp.metrics.get(KNEE, known.knee)
    first = [step for step in ramp.steps if step.part == "unloaded"]
    if ramp.metrics.get("broker_compile_share.max", 0.0) > COMPILING or any(step.missed for step in first):
        first = []
    return Known(knee, known.unloaded_ms + tuple(step.metrics[DECIDES_PACED] for step in first))


def _no_knee(search: _Search, index: int, *, own_brokers: bool) -> Round:
    """The round of brokers that missed the first step: a knee, if any, lies at most at that rate, and is judged by it,
    unless the generator was the limit."""
    first = search.steps[-1]  # of the steps at the first rate the last, which missed
    reason = f"no knee: already the first step, {first.rate:,.0f} records/s, missed the service level: {first.missed}"
    # A p99 above the level that is stated may be the level's fault.
    unmet = unmeasured(index, reason, broken=own_brokers and not (first.by_generator or search.slow))
    unmet = replace(unmet, accounting=_summed(search.steps), steps=tuple(search.steps))
    if first.by_generator:
        return unmet
    p99_ms = first.metrics.get(DECIDES_PACED)
    unloaded = {} if p99_ms is None else {UNLOADED: p99_ms}
    return replace(
        unmet,
        metrics={KNEE: first.rate, **unloaded},
        flaws=(
            *(replace(flaw, kind="no knee", whose="brokers", explains=NOTHING) for flaw in unmet.flaws),
            Flaw(reason, kind="no knee", whose="brokers", metrics=(KNEE, UNLOADED.partition(".")[0]), explains=NOTHING),
        ),
    )


def _summed(steps: Sequence[Step]) -> Accounting:
    parts = [step.accounting for step in steps]
    failed = Counter[str]()
    for part in parts:
        failed.update(part.failed)
    return Accounting(
        attempted=sum(part.attempted for part in parts),
        acked=sum(part.acked for part in parts),
        failed=dict(failed),
        unresolved=sum(part.unresolved for part in parts),
        offset_delta=sum(part.offset_delta for part in parts),
        withdrawn=sum(part.withdrawn for part in parts),
        markers=sum(part.markers for part in parts),
    )
