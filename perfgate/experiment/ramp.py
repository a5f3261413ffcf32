"""Rounds of a scenario that looks for the knee: many paced loads, one after the other, and what they came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perfgate.experiment.assembly import Finished, unmeasured
from perfgate.experiment.knee import find_knee
from perfgate.model import DECIDES_PACED, Accounting, Load, Round, Scenario, Step, StepPart

UNLOADED_TIMES = 10.0
"""The service level: a p99 of at most so many times the one at the first step, no record lost, and what is offered is
taken (RATE_REACHED of validity.py)."""
TRIES = 3
"""A step that the generator alone spoilt is measured so often at the most."""

Measure = Callable[[Scenario, str], Finished]
"""Measures one paced load; the text says which, for the progress line."""


class _Broken(Exception):
    """A step shows something that no rate excuses; its round holds the reason."""

    def __init__(self, found: Round) -> None:
        super().__init__()
        self.round = found


@dataclass
class _Search:
    scenario: Scenario
    measure: Measure

    def __post_init__(self) -> None:
        self.steps: list[Step] = []
        self.rounds: list[Round] = []
        self._most_ms: float | None = None

    def meets(self, rate: float, part: StepPart) -> bool:
        """Measure one step; return whether it meets the service level."""
        row = replace(self.scenario, load=Load(kind="paced", rate=rate))
        for _ in range(TRIES):
            finished = self.measure(row, f"{part}, {rate:,.0f} records/s:")
            if not finished.repeatable:
                break
        found = finished.round
        if _wrong_at_any_rate(finished):
            raise _Broken(found)
        if finished.repeatable:
            missed, by_generator = next(iter((*found.invalid, *found.invalid_metrics.values()))), True
        else:
            missed, by_generator = self._missed(found), False
        if part == "unloaded" and not missed:
            self._most_ms = UNLOADED_TIMES * found.metrics[DECIDES_PACED]
        self.rounds.append(found)
        self.steps.append(
            Step(
                rate=rate,
                part=part,
                metrics=found.metrics,
                accounting=found.accounting,
                received=found.reading.received if found.reading else None,
                missed=missed,
                by_generator=by_generator,
            )
        )
        return not missed

    def _missed(self, found: Round) -> str:
        if found.invalid:
            return found.invalid[0]
        if found.not_sustained:
            return found.not_sustained
        p99_ms = found.metrics[DECIDES_PACED]
        if self._most_ms is not None and p99_ms > self._most_ms:
            return (
                f"p99 {p99_ms:,.1f} ms, more than the {self._most_ms:,.1f} ms that are {UNLOADED_TIMES:g} times the "
                "p99 of the first step"
            )
        return ""


def _wrong_at_any_rate(finished: Finished) -> bool:
    """Return whether the round shows more than a rate that is too high: a record lost, a load that could not be made.

    Too high a rate may let sends fail, leave them without an outcome, or replicas fall behind.
    """
    found = finished.round
    accounting = found.accounting
    if accounting.offset_delta < accounting.acked:
        return True
    late = accounting.failed_total or accounting.unresolved or set(found.invalid) <= set(found.perhaps_late)
    return bool(found.invalid) and not finished.repeatable and not late


def ramp_round(
    measure: Measure, scenario: Scenario, index: int, about: float | None = None, *, own_brokers: bool
) -> Finished:
    """Return the round: the curve as its steps, and the metrics of the step at the knee.

    `about`: the knee of the round before. A knee that only the generator bounds is not valid. `own_brokers`: they
    serve nobody else, so that taking no rate at all is their doing.
    """
    search = _Search(scenario, measure)
    try:
        knee = find_knee(search.meets, scenario.load.rate, about)
    except _Broken as error:
        broken = replace(error.round, index=index, steps=tuple(search.steps))
        return Finished(round=broken, repeatable=False)
    if knee is None:
        return Finished(round=_no_knee(search, index, own_brokers=own_brokers), repeatable=False)
    at_knee = next(
        found
        for step, found in zip(reversed(search.steps), reversed(search.rounds), strict=True)
        if step.part == "confirmation"
    )
    beyond = min((s for s in search.steps if s.missed and s.rate > knee), key=lambda s: s.rate, default=None)
    spoilt = {}
    if beyond and beyond.by_generator:
        spoilt["knee_records_per_s"] = f"at {beyond.rate:,.0f} records/s the generator was the limit: {beyond.missed}"
    found = replace(
        at_knee,
        index=index,
        metrics={**at_knee.metrics, "knee_records_per_s": knee},
        accounting=_summed(search.steps),
        steps=tuple(search.steps),
        invalid_metrics={**at_knee.invalid_metrics, **spoilt},
    )
    return Finished(round=found, repeatable=False)


def _no_knee(search: _Search, index: int, *, own_brokers: bool) -> Round:
    first, last = search.steps[0], search.steps[-1]
    if first.missed:
        reason = f"no knee: already the first step, {first.rate:,.0f} records/s, missed the service level: "
        reason += first.missed
    else:
        reason = (
            f"no knee: no rate that met the service level did so again, down to {last.rate:,.0f} records/s: "
            f"{next((s.missed for s in reversed(search.steps) if s.missed), '')}"
        )
    found = unmeasured(index, reason, broken=own_brokers and bool(first.missed) and not first.by_generator)
    return replace(found, accounting=_summed(search.steps), steps=tuple(search.steps))


def _summed(steps: Sequence[Step]) -> Accounting:
    """Return where the records of all steps went."""
    failed: Counter[str] = Counter()
    for step in steps:
        failed.update(step.accounting.failed)
    parts = [step.accounting for step in steps]
    return Accounting(
        attempted=sum(one.attempted for one in parts),
        acked=sum(one.acked for one in parts),
        failed=dict(failed),
        unresolved=sum(one.unresolved for one in parts),
        offset_delta=sum(one.offset_delta for one in parts),
        withdrawn=sum(one.withdrawn for one in parts),
    )
