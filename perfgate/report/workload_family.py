"""Text of a family file for a workload of another tool (--workload, --write-family): its scenario as a declaration."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from textwrap import fill
from typing import Any

from perfgate.model import Load
from perfgate.model.catalogue import Family

WIDTH = 100
INDENT = "    "


def workload_text(family: Family, file: str, notes: tuple[str, ...]) -> str:
    """Return the text of a module that :func:`perfgate.fixtures.own_scenarios.load_own_scenarios` reads.

    `file`: the workload's; `notes`: what is not as that has it.
    """
    (scenario,) = family.scenarios
    names = {"Scenario", *_names(scenario)} if type(scenario).__name__ == "Scenario" else {*_names(scenario)}
    constant = scenario.name.upper().replace("-", "_")
    told = [fill(f"- {_plain(note)}", WIDTH, subsequent_indent="  ") for note in notes]
    about = _plain(f"{family.about[:1].upper()}{family.about[1:]}, from {file}.")
    lines = [
        f'"""{about}',
        *(["", "Otherwise than that file has it:", ""] if told else []),
        *told,
        '"""',
        "",
        f"from perfgate.model import {', '.join(sorted(names, key=str.lower))}",
        "from perfgate.model.catalogue import Family",
        "",
        f"{constant} = {_code(scenario, '')}",
        "",
        "FAMILIES = (",
        f"    Family(name={_text(family.name)}, about={_text(family.about)}, scenarios=({constant},)),",
        ")",
    ]
    return "\n".join(lines) + "\n"


def _stated(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a dataclass that differ from their defaults; of a load its kind always."""
    for one in fields(value):
        here = getattr(value, one.name)
        if here != _default(one) or (isinstance(value, Load) and one.name == "kind"):
            yield one.name, here


def _default(one: Field[Any]) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _names(value: Any) -> Iterator[str]:
    """Yield the names of the model that the declaration uses."""
    if is_dataclass(value):
        yield "Load" if isinstance(value, Load) else type(value).__name__
        for _, inner in _stated(value):
            yield from _names(inner)
    elif isinstance(value, tuple):
        if _is_settings(value):
            yield "settings"
        for inner in value:
            yield from _names(inner)


def _is_settings(value: tuple[Any, ...]) -> bool:
    pairs = all(
        isinstance(one, tuple) and len(one) == 2 and all(isinstance(part, str) for part in one) for one in value
    )
    return bool(value) and pairs


def _code(value: Any, indent: str) -> str:
    """Return a value as Python, in lines of WIDTH where it is a call of several arguments."""
    if is_dataclass(value):
        name = "Load" if isinstance(value, Load) else type(value).__name__
        parts = [f"{key}={_code(inner, indent + INDENT)}" for key, inner in _stated(value)]
        return _listed(f"{name}(", parts, ")", indent)
    if isinstance(value, tuple) and _is_settings(value):
        inside = _listed("{", [f"{_text(name)}: {_text(text)}" for name, text in value], "}", indent)
        return f"settings({inside})"
    if isinstance(value, tuple):
        parts = [_code(inner, indent + INDENT) for inner in value]
        return _listed("(", parts, ",)" if len(parts) == 1 else ")", indent)
    return _text(value) if isinstance(value, str) else repr(value)


def _listed(opened: str, parts: list[str], closed: str, indent: str) -> str:
    line = f"{opened}{', '.join(parts)}{closed}"
    if "\n" not in line and len(indent) + len(line) < WIDTH - 20:
        return line
    inner = "".join(f"{indent}{INDENT}{part},\n" for part in parts)
    return f"{opened}\n{inner}{indent}{closed.lstrip(',')}"


def _plain(text: str) -> str:
    """Return a text that ends no docstring."""
    return text.replace('"""', "'''").replace("\\", "/")


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
