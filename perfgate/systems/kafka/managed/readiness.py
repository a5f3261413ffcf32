"""Readiness of a cluster that was just started: waited for as long as its brokers make progress."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Sequence

from confluent_kafka import KafkaException

from perfgate.host.ports import listens
from perfgate.model import SAME_ZONE, Settings
from perfgate.model.errors import BrokersFailedError, StartRefusedError, TargetError
from perfgate.model.target import Cluster
from perfgate.systems.kafka.client.topics import admin_client

SILENCE_S = 30.0
"""Brokers that log nothing new and answer nothing new for this long have stopped starting. The longest pause of six
nodes in their first two minutes was 8 s, with 40 % of two cores that others used too."""
HANG_S = 300.0
"""Brokers that log but never become ready are given up after this time. Three of them take 6 s on a quiet machine of
two cores and 13.5 s on a slower one; with three controllers the latter took more than 30."""
REFUSED = re.compile(
    "ConfigException|Could not create the Java Virtual Machine|Could not find or load main class"
    "|UnsupportedClassVersionError"
)
"""In the output of a broker that was started with what Kafka or Java refuses."""
PORT_TAKEN = "Address already in use"
LAST_LINES = 25
LOOK_AT_LOGS_EVERY_S = 1.0
ASK_EVERY_S = 0.1


def wait_until_ready(
    cluster: Cluster, addresses: Sequence[str], *, check: Callable[[], None], logged: Callable[[], Hashable]
) -> None:
    """Wait until every broker is registered and every address (host:port) takes connections.

    `check` raises when a broker has ended; `logged` returns something that differs once a node has logged more. Raises
    BrokersFailedError with the last answer and the logs' end.
    """
    admin = admin_client(cluster.bootstrap(SAME_ZONE), cluster.client_settings())
    brokers = cluster.spec.brokers

    def missing() -> str:
        try:
            registered = len(admin.list_topics(timeout=1).brokers)
        except KafkaException as error:
            return str(error)
        # A broker is registered a moment before it takes connections.
        closed = [address for address in addresses if not listens(address, timeout_s=1)]
        if registered == brokers and not closed:
            return ""
        return f"{registered} of {brokers} brokers registered, closed: {', '.join(closed) or 'none'}"

    try:
        wait_while_it_progresses(missing, logged=logged, check=check)
    except TimeoutError as error:
        reason = f"{brokers} brokers were not ready {error}\n{cluster.log_tail(10)}"
        raise BrokersFailedError(reason, perhaps_late=True) from error


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


def wait_while_it_progresses(
    missing: Callable[[], str],
    *,
    logged: Callable[[], Hashable],
    check: Callable[[], None],
    silence_s: float = SILENCE_S,
    hang_s: float = HANG_S,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until nothing is `missing` any more (it returns what is, in words).

    Another answer and a log that grew are progress. Raises TimeoutError with the last of it after `silence_s` without
    any, or `hang_s` in all; and whatever `check` raises, at once.
    """
    begin = progressed = looked = now()
    seen, answer, progress = logged(), "no answer yet", "none"
    while True:
        check()
        found = missing()
        if not found:
            return
        if found != answer:
            answer, progressed, progress = found, now(), "another answer"
        if now() - looked >= LOOK_AT_LOGS_EVERY_S:
            looked, latest = now(), logged()
            if latest != seen:
                seen, progressed, progress = latest, now(), "new log lines"
        waited, silent = now() - begin, now() - progressed
        if silent >= silence_s or waited >= hang_s:
            bound = f"no progress for {silent:.0f} s" if silent >= silence_s else f"the bound is {hang_s:.0f} s"
            raise TimeoutError(
                f"after {waited:.0f} s: {bound} (last answer: {answer}; last progress: {progress}, {silent:.0f} s ago)"
            )
        pause(ASK_EVERY_S)
