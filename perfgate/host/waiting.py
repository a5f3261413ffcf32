"""Waiting for something to be ready, until a deadline; and why processes that a run has started did not come up."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TypeVar

from perfgate.model import Settings
from perfgate.model.errors import BrokersFailedError, StartRefusedError, TargetError

Ready = TypeVar("Ready")
SILENCE_S = 30.0
"""Brokers that log nothing new and answer nothing new for this long have stopped starting. The longest pause of six
nodes in their first two minutes was 8 s, with 40 % of two cores that others used too."""
HANG_S = 300.0
"""Brokers that log but never become ready are given up after this time. Three brokers take 6 s on a quiet machine
of two cores and 13.5 s on a slower machine, more than 30 s there with three controllers."""
LOOK_AT_LOGS_EVERY_S = 1.0
ASK_EVERY_S = 0.1
LOG_LINE = 300
REFUSED = re.compile(
    "ConfigException|Malformed configuration file|Could not create the Java Virtual Machine"
    "|Could not find or load main class|UnsupportedClassVersionError"
)
"""In the output of a broker whose settings Kafka, Pulsar or Java refuses."""
PORT_TAKEN = "Address already in use"
LAST_LINES = 25


class NotYet(Exception):
    """Something awaited is not ready; the message names what is missing."""


def poll_until(
    failure: str,
    ask: Callable[[], Ready],
    *,
    within_s: float,
    every_s: float,
    not_yet: tuple[type[Exception], ...] = (NotYet,),
    check: Callable[[], object] = lambda: None,
    error: Callable[[str], Exception] = TargetError,
) -> Ready:
    """Call `ask` until it raises none of `not_yet`, and return its result.

    After `within_s` raises `error` with the `failure` in words and the last exception, which is its cause. `check` is
    called after each failed attempt: its exception ends the wait.
    """
    deadline = time.monotonic() + within_s
    while True:
        try:
            return ask()
        except not_yet as last:
            check()
            if time.monotonic() > deadline:
                raise error(f"{failure} within {within_s:g} s: {last}") from last
        time.sleep(every_s)


def wait_while_it_progresses(
    missing: Callable[[], str], *, logged: Callable[[], Hashable], check: Callable[[], None]
) -> None:
    """Wait until `missing`, which describes what is missing, returns an empty text.

    A new answer and a log that grew are progress. Raises TimeoutError, with the last progress, after SILENCE_S without
    any, or HANG_S in all; and whatever `check` raises, at once.
    """
    begin = progressed = looked = time.monotonic()
    log, answer, progress = logged(), "no answer yet", "none"
    while True:
        check()
        latest_answer = missing()
        if not latest_answer:
            return
        if latest_answer != answer:
            answer, progressed, progress = latest_answer, time.monotonic(), "another answer"
        if time.monotonic() - looked >= LOOK_AT_LOGS_EVERY_S:
            looked, latest_log = time.monotonic(), logged()
            if latest_log != log:
                log, progressed, progress = latest_log, time.monotonic(), "new log lines"
        waited, silent = time.monotonic() - begin, time.monotonic() - progressed
        if silent >= SILENCE_S or waited >= HANG_S:
            bound = f"no progress for {silent:.0f} s" if silent >= SILENCE_S else f"the bound is {HANG_S:.0f} s"
            raise TimeoutError(
                f"after {waited:.0f} s: {bound} (last answer: {answer}; last progress: {progress}, {silent:.0f} s ago)"
            )
        time.sleep(ASK_EVERY_S)


def tail_of(log: Path, lines: int) -> str:
    """The last lines of a log, each of at most LOG_LINE characters."""
    if not log.exists():
        return "(no log yet)"
    return "\n".join(line[:LOG_LINE] for line in log.read_text(errors="replace").splitlines()[-lines:])


def start_error(failure: str, evidence: str, config: Settings, failed: type[TargetError] = TargetError) -> Exception:
    """The reason why a cluster did not start: `failed`, unless a setting was refused or a port was taken."""
    evidence = "\n".join(evidence.splitlines()[-LAST_LINES:])
    stated = f"; broker settings of this run: {dict(config)}" if config else ""
    kind = StartRefusedError if REFUSED.search(evidence) else TargetError if PORT_TAKEN in evidence else failed
    return kind(f"{failure}{stated}\n{evidence}")


def check_while_starting(check: Callable[[], None], config: Settings) -> None:
    """Raise what `check` raises while a cluster with these broker settings starts, as its :func:`start_error`."""
    try:
        check()
    except TargetError as error:
        failed = BrokersFailedError if isinstance(error, BrokersFailedError) else TargetError
        raise start_error("a broker ended while the cluster started", str(error), config, failed) from error
