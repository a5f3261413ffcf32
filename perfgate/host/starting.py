"""Reasons why processes that a run has started did not come up: the end of their logs, and its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from perfgate.model import Settings
from perfgate.model.errors import BrokersFailedError, StartRefusedError, TargetError

LOG_LINE = 300
REFUSED = re.compile(
    "ConfigException|Malformed configuration file|Could not create the Java Virtual Machine"
    "|Could not find or load main class|UnsupportedClassVersionError"
)
"""In the output of a broker that was started with what Kafka, Pulsar or Java refuses."""
PORT_TAKEN = "Address already in use"
LAST_LINES = 25


def tail_of(log: Path, lines: int) -> str:
    """Return the last lines of a log, each of at most LOG_LINE characters."""
    if not log.exists():
        return "(no log yet)"
    return "\n".join(line[:LOG_LINE] for line in log.read_text(errors="replace").splitlines()[-lines:])


def start_error(what: str, evidence: str, config: Settings, failed: type[TargetError] = TargetError) -> Exception:
    """The reason why a cluster did not start: `failed`, unless a setting was refused or a port was taken."""
    evidence = "\n".join(evidence.splitlines()[-LAST_LINES:])
    stated = f"; broker settings of this run: {dict(config)}" if config else ""
    kind = StartRefusedError if REFUSED.search(evidence) else TargetError if PORT_TAKEN in evidence else failed
    return kind(f"{what}{stated}\n{evidence}")


def check_while_starting(check: Callable[[], None], config: Settings) -> None:
    """Raise what `check` raises while a cluster with these broker settings starts, as its :func:`start_error`."""
    try:
        check()
    except TargetError as error:
        failed = BrokersFailedError if isinstance(error, BrokersFailedError) else TargetError
        raise start_error("a broker ended while the cluster started", str(error), config, failed) from error
