"""Loads beside a scenario's: their topics for a round, and the figures and flaws of each at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from perfgate.measure.assembly import load_metrics, reading_of
from perfgate.measure.flaw import COUNTED
from perfgate.measure.round_topics import RoundTopics
from perfgate.measure.validity import accounted, not_sustained
from perfgate.model import MIB, PartFigures, Scenario
from perfgate.model.flaw import Flaw, Part
from perfgate.model.load import LoadResult
from perfgate.model.metrics import PART, PER_PART_METRICS


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """One load beside a scenario's: its name there, itself as a scenario, its topics and their end offsets before.

    `limited`: whether a quota holds it back.
    """

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
            loads.append(
                Beside(
                    name=part.name,
                    scenario=alone,
                    topic=topic,
                    before=topics.ends(topic, alone),
                    limited=bool(part.quota_mib_per_s),
                )
            )
        yield tuple(loads)


def client_ids(scenario: Scenario, begins: str) -> dict[str, int]:
    """The client id of each load beside a scenario's that has a quota, and the quota in bytes/s of each broker."""
    return {
        f"{begins}-{alone.name}": round(part.quota_mib_per_s * MIB)
        for part, alone in zip(scenario.beside, scenario.parts, strict=True)
        if part.quota_mib_per_s
    }


def ended(
    load: Beside,
    result: LoadResult,
    after: Sequence[int],
    brokers: Mapping[str, float],
    clients_cores: float,
    *,
    shares_cores: bool,
) -> tuple[PartFigures, dict[str, float], tuple[Flaw, ...]]:
    """Figures of a load that has ended, its metrics as the round has them, and its flaws.

    `brokers`: their metrics in the window; `clients_cores`: cores that the generators of all loads used in it. A flaw
    of one load is a flaw of the round, since the scenario's own load then met brokers that had less to do. A flaw of
    single metrics concerns this load's metrics alone.
    """
    alone = load.scenario
    accounting, own = accounted(alone, result, load.before, after, brokers, clients_cores, shares_cores=shares_cores)
    figures = PartFigures(
        name=load.name,
        accounting=accounting,
        reading=reading_of(result),
        latency_histogram=result.sent.latency if result.sent else "",
        not_sustained=not_sustained(alone.load, result),
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
    """The part of a load's flaw, on the load's own metrics and on brokers' costs, which are of all loads' records.

    It explains nothing of the scenario's own metrics, also where the flaw is of the `whole` load.
    """
    own = [metric if metric.startswith("broker_") else f"{PART}{name}.{metric}" for metric in part.metrics]
    if whole and not own:
        own = [f"{PART}{name}", *(metric for metric in COUNTED if metric.startswith("broker_"))]
    return replace(part, metrics=tuple(own))
