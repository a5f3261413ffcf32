"""Loads beside a scenario's: their topics for a round, and what became of each in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from perfgate.measure.assembly import load_metrics, reading_of
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
    """Give the loads beside a scenario's, with their topics for the length of the context. Raises TopicRefusedError."""
    with ExitStack() as stack:
        made = []
        for part, alone in zip(scenario.beside, scenario.parts, strict=True):
            topic = stack.enter_context(topics.fresh(alone, progress))
            made.append(
                Beside(
                    name=part.name,
                    scenario=alone,
                    topic=topic,
                    before=topics.ends(topic, alone),
                    limited=bool(part.quota_mib_per_s),
                )
            )
        yield tuple(made)


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
    """What became of a load: its figures, its metrics as the round has them, and its flaws.

    `brokers`: their metrics in the window; `clients_cores`: what the generators of all loads used in it. A flaw of one
    load is one of the round: brokers that got less beside the scenario's load are none of which it says anything. But
    for one of single metrics, which is of this load's alone.
    """
    alone = load.scenario
    accounting, found = accounted(alone, result, load.before, after, brokers, clients_cores, shares_cores=shares_cores)
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
            explains=tuple(_of_load(part, load.name) for part in flaw.explains),
        )
        for flaw in found
        if not (load.limited and flaw.kind == "quota")
    )
    return figures, metrics, flaws


def _of_load(part: Part, name: str) -> Part:
    """What the load's flaw explains of its own metrics, and of brokers' costs, which are of all loads' records.

    Of the scenario's own metrics it explains nothing.
    """
    own = (metric if metric.startswith("broker_") else f"{PART}{name}.{metric}" for metric in part.metrics)
    return replace(part, metrics=tuple(own))
