"""Recorded runs of older schemas, brought to the form of this one: the reasons of a round as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from perfgate.model.compared import HEARD_LATE, OUTLASTED, SATURATED, SENT_LATE, STOOD_STILL, WAITED
from perfgate.model.doubt import Doubt
from perfgate.model.flaw import EVERYTHING, Flaw, Part

KINDS = (OUTLASTED, WAITED, SATURATED, STOOD_STILL, HEARD_LATE, SENT_LATE)
"""Kinds of flaws that a text of an older run names."""
OLD = ("invalid", "broken", "perhaps_late", "invalid_metrics", "doubts")


def bring_to_flaws(value: Any) -> None:
    """Have every round in what run.json holds state its flaws. Raises KeyError where one lacks what was wrong."""
    if isinstance(value, list):
        for one in value:
            bring_to_flaws(one)
    elif isinstance(value, dict):
        if "accounting" in value and "warmup_s" in value and "flaws" not in value:
            old = {name: value.pop(name) for name in OLD if name in value}
            value["flaws"] = [asdict(flaw) for flaw in flaws_of(old)]
        for one in value.values():
            bring_to_flaws(one)


def flaws_of(old: Mapping[str, Any]) -> tuple[Flaw, ...]:
    """Return the flaws that a round of before schema 5 states. Raises KeyError where it lacks `invalid`."""
    invalid, broken, late = (tuple(old.get(name, ())) for name in ("invalid", "broken", "perhaps_late"))
    if not isinstance(old["invalid"], list | tuple):
        raise TypeError(f"invalid = {old['invalid']!r}")
    by_text: dict[str, list[str]] = {}
    for metric, text in dict(old.get("invalid_metrics", {})).items():
        by_text.setdefault(text, []).append(metric)
    doubts = [one if isinstance(one, Doubt) else Doubt(**one) for one in old.get("doubts", ())]
    marks = {text: (text in late, text in broken) for text in (*invalid, *broken, *late)}
    found = [_flaw(text, (), doubts, *marks[text]) for text in dict.fromkeys((*invalid, *broken))]
    found += [_flaw(text, tuple(metrics), doubts, text in late) for text, metrics in by_text.items()]
    known = {flaw.text for flaw in found}
    return (*found, *(_flaw(one.text, one.metrics, [one]) for one in doubts if one.text not in known))


def _flaw(
    text: str, metrics: tuple[str, ...], doubts: Iterable[Doubt], late: bool = False, broken: bool = False
) -> Flaw:
    """Return a flaw with what its doubts explain; one without, as the oldest are, explains everything."""
    own = [one for one in doubts if one.text == text]
    kind = own[0].kind if own else "flaw"
    if kind in ("flaw", "turns"):
        kind = next((name for name in KINDS if name in text), kind)
    parts = tuple(Part(factor=one.factor, offset=one.offset, metrics=one.metrics) for one in own)
    return Flaw(
        text,
        kind=kind,
        whose=own[0].whose if own else "unknown",
        metrics=metrics,
        late=late,
        broken=broken,
        explains=parts or EVERYTHING,
    )
