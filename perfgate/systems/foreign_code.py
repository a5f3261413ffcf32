"""Options of a JVM that load foreign code or run a command, and the refusal of settings that do."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfgate.model.errors import ConfigurationError

HARMLESS_JVM = re.compile(
    r"-X(m[snx]|ss)\d+[kmgtKMGT]?|-X(int|comp|mixed|batch|rs)|-server|-verbose(:\w+)?|-Xlog:(?!.*file=)[^/\\]*"
    r"|-XX:[+-]\w+|-XX:\w+=[\d.]+[%kmgtKMGT]?|-D(?!com\.sun\.management)[\w.]+=(true|false|[\d.]+[kmgKMG]?)"
)
"""Options of a JVM that set sizes, switches and numbers; others load agents and classes, or run a command."""
PERMISSION = "--allow-commands"


def loading_option(value: object) -> str:
    """Return the first option among those of a JVM that is not known to be harmless; empty where all are."""
    return next((one for one in _options(value) if not HARMLESS_JVM.fullmatch(one)), "")


def refuse(found: str, written: str) -> None:
    """Raise ConfigurationError that begins with `written` where `found` names what loads code or runs a command."""
    if found:
        raise ConfigurationError(
            f"{written}: {found} loads code or runs a command on this machine or its brokers: read where it is from, "
            f"then add {PERMISSION}"
        )


def _options(value: object) -> list[str]:
    return (
        value.split() if isinstance(value, str) else [str(one) for one in value] if isinstance(value, Iterable) else []
    )
