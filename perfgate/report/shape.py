"""Recorded runs as their readers rely on them: run.json and lines of the history checked, older schemas brought up."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, make_dataclass
from types import GenericAlias
from typing import Any, NoReturn, TypeVar, cast

from pydantic import ConfigDict, ValidationError, with_config

from perfgate.model.compared import HEARD_LATE, OUTLASTED, SATURATED, SENT_LATE, STOOD_STILL, WAITED
from perfgate.model.flaw import EVERYTHING, Doubt, Flaw, Part
from perfgate.model.measured import CanaryReading
from perfgate.model.structured import adapter
from perfgate.model.system import DEFAULT_KAFKA_VERSION, VERSION_FACTS, system_of

T = TypeVar("T")
READ = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
KINDS_IN_TEXTS = (OUTLASTED, WAITED, SATURATED, STOOD_STILL, HEARD_LATE, SENT_LATE)
"""Kinds of flaws that the text of a run of before schema 5 names."""
BEFORE_FLAWS = ("invalid", "broken", "perhaps_late", "invalid_metrics", "doubts")
Table = Mapping[str, Any]


def _object(*, optional: Collection[str] = (), **kinds: Any) -> Any:
    keys = [(name, kind, field(default=None)) if name in optional else (name, kind) for name, kind in kinds.items()]
    return with_config(READ)(make_dataclass("Object", keys, frozen=True, kw_only=True))


def _list(kind: Any) -> Any:
    return GenericAlias(Sequence, (kind,))


@with_config({**READ, "extra": "forbid"})
@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading(CanaryReading):
    pass


SCENARIO = _object(
    name=str,
    family=str,
    verdict=str | None,
    reasons=_list(str),
    judgements=_list(_object(metric=str, limit=float | None)),
    first_look=Table | None,
    metrics=GenericAlias(Mapping, (str, _object(value=float | None, rounds=_list(float)))),
    load=_object(kind=str),
    declared=_object(cluster=Table, fault=object),
    rounds=_list(_object(metrics=Mapping[str, float])),
    canary=_list(_Reading),
)
RELATION = _object(name=str, verdict=str)
RUN = _object(
    run_id=str,
    started=str,
    finished=str,
    tier=_object(name=str, rounds=int, window_s=float),
    driver=str,
    modified=_list(str),
    profile=str | None,
    replay_of=str | None,
    change=Table | None,
    target=_object(kind=str, name=str, kafka_version=str, pulsar_version=str, optional=tuple(VERSION_FACTS.values())),
    environment=_object(cores=int, cpu_model=str, commit=str | None),
    exit_code=int,
    scenarios=_list(SCENARIO),
    second_looks=_list(SCENARIO),
    relations=_list(RELATION),
    ranges=_list(RELATION),
    optional=("ranges",),
    comparisons=_list(_object(scenario=str, verdict=str)),
    not_run=_list(_object(name=str, reason=str)),
)
SCENARIO_IN_HISTORY = _object(verdict=str | None, limits=Mapping[str, float | None] | None, optional=("limits",))
LINE = _object(
    run_id=str,
    resumed_from=str | None,
    started=str,
    tier=str,
    driver=str,
    modified=_list(str),
    profile=str | None,
    facts=Table,
    commit=str | None,
    exit_code=int,
    rows=GenericAlias(Mapping, (str, SCENARIO_IN_HISTORY)),
    relations=Mapping[str, str | None],
    optional=("resumed_from", "relations"),
)


def check_release(target: Mapping[str, Any]) -> None:
    """Raise ValueError where the facts of a target do not state the release of its system."""
    if (system := system_of(target)) not in VERSION_FACTS:
        raise ValueError(f"target.system: {system!r} is none; legal: {', '.join(VERSION_FACTS)}")
    if VERSION_FACTS[system] not in target:
        raise ValueError(f"target.{VERSION_FACTS[system]}: Field required")


def line_of(text: str, figures: Sequence[str]) -> dict[str, Any]:
    """Return a line of the history whose `figures` of a scenario, where present, are numbers. Raises ValueError."""
    read_as(LINE, text)
    entry: dict[str, Any] = json.loads(text, parse_constant=no_number)
    for name, kept in entry["rows"].items():
        if wrong := [metric for metric in figures if not isinstance(kept.get(metric, 0), int | float)]:
            raise ValueError(f"rows.{name}.{wrong[0]}: Input should be a valid number")
    return entry


def bring_to_flaws(value: Any) -> None:
    """Have every round in a run.json state its flaws as values. Raises KeyError where a round lacks what was wrong."""
    if isinstance(value, list):
        for each in value:
            bring_to_flaws(each)
    elif isinstance(value, dict):
        if "accounting" in value and "warmup_s" in value and "flaws" not in value:
            old = {name: value.pop(name) for name in BEFORE_FLAWS if name in value}
            value["flaws"] = [asdict(flaw) for flaw in flaws_of(old)]
        for each in value.values():
            bring_to_flaws(each)


def bring_to_systems(document: Mapping[str, Any]) -> None:
    """Have every scenario in a run.json of before schema 6 state its system, which was Kafka. Raises KeyError."""
    compared = [entry[side] for entry in document["comparisons"] for side in ("baseline", "candidate")]
    turns = [entry["measured"] for entry in document.get("references", ())]
    again = document.get("baselines", ())
    for entry in (*document["scenarios"], *document["second_looks"], *again, *compared, *turns):
        declared = entry["declared"]
        version = declared["cluster"].pop("kafka_version", DEFAULT_KAFKA_VERSION)
        declared["cluster"] |= {"system": "kafka", "version": version, "bookies": 0, "bookie_config": {}}
        declared["topic"]["ack_quorum"] = 0


def flaws_of(old: Mapping[str, Any]) -> tuple[Flaw, ...]:
    """Return the flaws that a round of before schema 5 states. Raises KeyError where it lacks `invalid`."""
    invalid, broken, late = (tuple(old.get(name, ())) for name in ("invalid", "broken", "perhaps_late"))
    if not isinstance(old["invalid"], list | tuple):
        raise TypeError(f"invalid = {old['invalid']!r}")
    by_text: dict[str, list[str]] = {}
    for metric, text in dict(old.get("invalid_metrics", {})).items():
        by_text.setdefault(text, []).append(metric)
    doubts = [doubt if isinstance(doubt, Doubt) else Doubt(**doubt) for doubt in old.get("doubts", ())]
    marks = {text: (text in late, text in broken) for text in (*invalid, *broken, *late)}
    flaws = [_flaw(text, (), doubts, *marks[text]) for text in dict.fromkeys((*invalid, *broken))]
    flaws += [_flaw(text, tuple(metrics), doubts, text in late) for text, metrics in by_text.items()]
    known = {flaw.text for flaw in flaws}
    return (*flaws, *(_flaw(doubt.text, doubt.metrics, [doubt]) for doubt in doubts if doubt.text not in known))


def _flaw(
    text: str, metrics: tuple[str, ...], doubts: Iterable[Doubt], late: bool = False, broken: bool = False
) -> Flaw:
    own = [doubt for doubt in doubts if doubt.text == text]
    kind = own[0].kind if own else "flaw"
    if kind in ("flaw", "turns"):
        kind = next((name for name in KINDS_IN_TEXTS if name in text), kind)
    parts = tuple(Part(factor=doubt.factor, offset=doubt.offset, metrics=doubt.metrics) for doubt in own)
    return Flaw(
        text,
        kind=kind,
        whose=own[0].whose if own else "unknown",
        metrics=metrics,
        late=late,
        broken=broken,
        explains=parts or EVERYTHING,
    )


def no_number(text: str) -> NoReturn:
    """Raise ValueError for a number that Python writes and JSON has no word for."""
    raise ValueError(f"{text} is no number, and no run of the gate writes one")


def read_as(kind: type[T], text: str) -> T:
    """Return JSON as this type. Raises ValueError with what keeps it from being read, its key first."""
    try:
        # As JSON: strictly read, a table of Python is none of these types.
        return cast("T", adapter(kind).validate_json(text))
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, fault['loc'])) or 'it'}: {fault['msg']}") from None
