"""Loads beside a scenario's: their topics for a round, and the figures and flaws of each at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from perfgate.measure.assembly import load_metrics, reading_of
from perfgate.measure.flaw import COUNTED
from perfgate.measure.round_topics import RoundTopics
from perfgate.measure.validity import not_sustained
from perfgate.model import MIB, Accounting, PartFigures, Scenario
from perfgate.model.flaw import Flaw, Part
from perfgate.model.load import LoadResult
from perfgate.model.metrics import PART, PER_PART_METRICS


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """A load beside a scenario's: its topics with their end offsets before; `limited`: a quota holds it back."""

    name: str
    scenario: Scenario
    topic: str
    before: Sequence[int]
    limited: bool


@contextmanager
def loads_beside(
    scenario: Scenario, topics: RoundTopics, progress: Callable[[str], None]
) -> Iterator[tuple[Beside, ...]]:
    """Loads beside a scenario's, with their topics for the length of the context. Raises TopicRefusedError."""
    with ExitStack() as stack:
        loads = []
        for part, alone in zip(scenario.beside, scenario.parts, strict=True):
            topic = stack.enter_context(topics.fresh(alone, progress))
            before, limited = topics.ends(topic, alone), bool(part.quota_mib_per_s)
            loads.append(Beside(name=part.name, scenario=alone, topic=topic, before=before, limited=limited))
        yield tuple(loads)


def client_ids(scenario: Scenario, begins: str) -> dict[str, int]:
    """The client id of each load beside a scenario's that has a quota, and the quota in bytes/s of each broker."""
    return {
        f"{begins}-{alone.name}": round(part.quota_mib_per_s * MIB)
        for part, alone in zip(scenario.beside, scenario.parts, strict=True)
        if part.quota_mib_per_s
    }


def ended(
    load: Beside, result: LoadResult, accounting: Accounting, own: Sequence[Flaw]
) -> tuple[PartFigures, dict[str, float], tuple[Flaw, ...]]:
    """Figures of a load that has ended, its metrics as the round has them, and its `own` flaws as those of the round:
    brokers had less to do. One of single metrics concerns this load's alone."""
    figures = PartFigures(
        name=load.name,
        accounting=accounting,
        reading=reading_of(result),
        latency_histogram=result.sent.latency if result.sent else "",
        not_sustained=not_sustained(load.scenario.load, result),
    )
    metrics = {f"{PART}{load.name}.{name}": v for name, v in load_metrics(result).items() if name in PER_PART_METRICS}
    flaws = tuple(
        replace(
            flaw,
            text=f"the load {load.name} beside it: {flaw.text}",
            metrics=(f"{PART}{load.name}",) if flaw.metrics else (),
            explains=tuple(_of_load(part, load.name, whole=not flaw.metrics) for part in flaw.explains),
        )
        for flaw in own
        if not (load.limited and flaw.kind == "quota")
    )
    return figures, metrics, flaws


def _of_load(part: Part, name: str, *, whole: bool) -> Part:
    """The part of a load's flaw, on its own metrics and brokers' costs, which are of all loads' records: never the
    scenario's."""
    own = [metric if metric.startswith("broker_") else f"{PART}{name}.{metric}" for metric in part.metrics]
    if whole and not own:
        own = [f"{PART}{name}", *(metric for metric in COUNTED if metric.startswith("broker_"))]
    return replace(part, metrics=tuple(own))
