"""Load kinds, a file each: the files of this folder are the kinds that there are."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields

from perfgate.model.loads.base import KINDS as KINDS
from perfgate.model.loads.base import Load as Load

_FIRST = ("capped", "paced", "backlog", "ramp")
"""The order in which run.json's schema and messages list these; other kinds follow by name."""


def discover() -> None:
    """Make every kind that a file of this folder defines known by its name."""
    kinds: dict[str, type[Load]] = {
        str(fields(kind)[0].default): kind
        for module in pkgutil.iter_modules(__path__, f"{__name__}.")
        for kind in vars(importlib.import_module(module.name)).values()
        if isinstance(kind, type) and issubclass(kind, Load) and kind is not Load
    }
    order = [*_FIRST, *sorted(kinds.keys() - set(_FIRST))]
    KINDS.clear()
    KINDS.update({name: kinds[name] for name in order})


discover()
