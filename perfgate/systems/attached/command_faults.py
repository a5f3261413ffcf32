"""Faults of real brokers, by the commands of their target file; the cluster's own state shows their effect."""

from __future__ import annotations

import math
import re
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from perfgate.host.session import run_in_session
from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import FAULTS
from perfgate.model.errors import TargetError
from perfgate.model.secret import redacted
from perfgate.model.target import BACK, Action
from perfgate.systems import unable

LAST_WORDS = 5
WELL_WITHIN_S, BACK_WITHIN_S, LOOK_EVERY_S = 120.0, 60.0, 2.0
STAYS_S = 4.0
"""A broker has to answer for this long before it counts as back."""
PLAIN_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*|[0-9A-Fa-f:.]+")
"""Names and addresses as brokers should advertise them. A shell reads the value of {host}, and any server that answers
as a broker chooses it."""


def lacking(
    kind: str, commands: Mapping[str, str], brokers: Mapping[int, str], allowed: Collection[int] = ()
) -> str | None:
    """The reason why these commands cannot cause the fault on these brokers, of which `allowed` may go (empty: all)."""
    needed = FAULTS[kind].commands
    if needed is None:
        return f"{kind} cannot be brought about on real brokers"
    missing = [name for name in needed if name not in commands]
    if missing:
        return f"no fault command: the target file states no [faults] {' and '.join(missing)}"
    hosts = [address.rpartition(":")[0] for address in brokers.values()]
    blunt = [name for name in needed if "{port}" not in commands[name] and "{broker}" not in commands[name]]
    if blunt and len(set(hosts)) < len(hosts):
        return (
            f"brokers share a host, and [faults] {' and '.join(blunt)} names neither {{port}} nor {{broker}}: it would "
            "hit more than one"
        )
    alike = [name for name in blunt if "{host}" not in commands[name]]
    if alike and len([broker for broker in brokers if not allowed or broker in allowed]) > 1:
        return (
            f"[faults] {' and '.join(alike)} names none of {{host}}, {{port}} and {{broker}}: it would hit the same "
            "broker whichever is meant"
        )
    return None


class FaultJournal(Protocol):
    """Remembers which brokers are away, so that they come back however the run ends. Raises TargetError."""

    def takes(self, broker: int, address: str, back: str) -> None:
        """Note that a broker is about to be taken away, and the command that brings it back."""

    def has_taken(self, broker: int) -> None: ...

    def gives_back(self, broker: int) -> None: ...


@dataclass(frozen=True, slots=True)
class FaultCommands:
    """The fault commands of a target file, by name, and how long each may take (s)."""

    lines: Mapping[str, str]
    timeout_s: float

    def run(self, name: str, broker: int, address: str, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Run a command for the broker at `address` (host:port). Raises TargetError with its last words.

        What `meanwhile` raises ends it.
        """
        if name not in self.lines:
            raise TargetError(f"the target file states no [faults] {name}, which broker {broker} at {address} needs")
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        if not PLAIN_HOST.fullmatch(host) or not port.isdigit():
            raise TargetError(
                f"broker {broker} calls itself {address!r}: no command is run for what is no plain host and port"
            )
        command = self.lines[name].format(host=host, port=port, broker=broker)
        try:
            # The file's own command line, as its owner would type it.
            code, output = run_in_session(["/bin/sh", "-c", command], self.timeout_s, meanwhile=meanwhile)
        except subprocess.TimeoutExpired:
            message = f"[faults] {name} for broker {broker} did not end within {self.timeout_s:g} s: {command}"
            raise TargetError(redacted(message)) from None
        if code:
            words = "\n".join(output.splitlines()[-LAST_WORDS:])
            message = f"[faults] {name} for broker {broker} ended with {code}: {command}\n{words}"
            raise TargetError(redacted(message))

    def bring_back(
        self, back: str, broker: int, address: str, *, run: bool, ended: bool, seen: Callable[[str], bool]
    ) -> str:
        """Bring a broker back that a fault took away; return what a person has to do where it does not come.

        `run`: the command has not been run yet. It is, whatever is seen: a broker that is being stopped, or is cut off
        from the others, still answers. A `start` that fails although the broker answers was never needed. `ended`: what
        took it away has ended; else it is watched for the commands' time, for it may go only now, and is then brought
        back again. `seen`: whether the broker at an address answers.
        """
        try:
            reason = self._not_back(back, broker, address, run=run, ended=ended, seen=seen)
        except Exception as error:  # whatever it is, the next broker is tried, and what comes after
            reason = repr(error)
        if not reason:
            return ""
        state = {"start": "DOWN", "resume": "PAUSED", "heal": "CUT OFF"}.get(back, "AWAY")
        words = " ".join(reason.split())
        return f"BROKER {broker} ({address}) IS STILL {state}: [faults] {back} has to be run for it; {words}"

    def _not_back(
        self, back: str, broker: int, address: str, *, run: bool, ended: bool, seen: Callable[[str], bool]
    ) -> str:
        """Return why the broker is not back; empty when its command worked, and it answers and goes on to."""
        failed = self._tried(back, broker, address) if run else ""
        if failed and (back != "start" or not seen(address)):
            return failed
        watched_s = STAYS_S if ended else max(STAYS_S, self.timeout_s)
        since, deadline = math.inf, time.monotonic() + BACK_WITHIN_S
        while True:
            answers, now = seen(address), time.monotonic()
            if answers and now - since >= watched_s:
                return ""
            if not answers and now > deadline:
                return f"its command ended well, but nothing has answered at {address} for {BACK_WITHIN_S:g} s"
            if not answers and since < math.inf and not ended:  # it has gone only now
                ended, deadline = True, now + BACK_WITHIN_S
                if run and (failed := self._tried(back, broker, address)):
                    return failed
            since = min(since, now) if answers else math.inf
            time.sleep(LOOK_EVERY_S)

    def _tried(self, name: str, broker: int, address: str) -> str:
        try:
            self.run(name, broker, address)
        except TargetError as error:
            return str(error)
        return ""


class CommandFaults:
    """See :class:`perfgate.model.target.Faults`."""

    active_controller = unable("which controller is the active one cannot be told of real brokers")
    move_replicas = unable("replicas are not moved on real brokers")
    drop_cache = unable("the page cache of real brokers is not dropped")
    local_share = unable("what real brokers have in a remote tier is not known")

    def __init__(
        self,
        commands: FaultCommands,
        brokers: Mapping[int, str],
        journal: FaultJournal,
        *,
        seen: Callable[[str], bool],
        unwell: Callable[[], str] = lambda: "",
        allowed: Collection[int] = (),
        at_a_time: int = 1,
        session_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`brokers`: addresses (host:port) by id; `seen`: whether the broker at an address answers; `unwell`: the
        cluster's problem, asked before; `allowed`: brokers that may be taken away, empty: all; `at_a_time`: how many;
        `session_s`: how long a broker may be silent, 0: not known.
        """
        self.session_s = session_s
        self._at_a_time, self._seen = at_a_time, seen
        self._taken: set[int] = set()
        """Brokers that have gone: the taking command has had its effect."""
        self._commands, self._brokers, self._journal = commands, brokers, journal
        self._unwell, self.allowed = unwell, allowed
        self._away: dict[int, str] = {}
        self._returning: dict[int, str] = {}
        """Brokers whose command has been run, and which have not been seen to be back."""

    @property
    def away(self) -> frozenset[int]:
        return frozenset(self._away)

    def do(self, action: Action, node: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        if action in BACK:
            self._take(action, node, meanwhile)
        else:
            self._commands.run(action, node, self._brokers[node], meanwhile)
            self._taken.add(node)  # that it had gone was seen
            self._returning[node] = self._away.pop(node, action)

    def wait_until_ended(self, node: int) -> None:
        """Do nothing: the stop command has waited, and the cluster shows the rest."""

    def changes(self, topic: str) -> None:
        """Return nothing: the controllers' log is out of reach."""

    def restore(self) -> list[str]:
        """Give back all that is away, until it answers and goes on to; return what is left for a person to do."""
        left = []
        for broker, back in {**self._away, **self._returning}.items():
            address, run, ended = self._brokers[broker], broker in self._away, broker in self._taken
            if words := self._commands.bring_back(back, broker, address, run=run, ended=ended, seen=self._seen):
                left.append(words)
            else:
                self._is_back(broker)
        return left

    def settled(self) -> None:
        """Note that brokers which answer are back: the cluster is well.

        Else a killed run would leave them noted, and the next start would start one that its owner has stopped since.
        """
        for broker in [broker for broker in self._returning if self._seen(self._brokers[broker])]:
            self._is_back(broker)

    def _is_back(self, broker: int) -> None:
        self._away.pop(broker, None)
        self._returning.pop(broker, None)
        with suppress(TargetError):  # a full disk keeps no other broker down
            self._journal.gives_back(broker)

    def _take(self, name: Action, broker: int, meanwhile: Callable[[], None]) -> None:
        if self.allowed and broker not in self.allowed:
            raise TargetError(f"broker {broker} is not among [faults] brokers: {', '.join(map(str, self.allowed))}")
        if len(self._away) >= self._at_a_time:
            away = ", ".join(map(str, self._away))
            raise TargetError(f"broker {broker} is not taken away: {away} is, and [faults] two-down is not true")
        if not self._away:  # the second of two is taken from a cluster that the first has left unwell
            self._wait_until_well(broker, meanwhile)
        self._returning.pop(broker, None)
        self._taken.discard(broker)
        self._journal.takes(broker, self._brokers[broker], BACK[name])
        self._away[broker] = BACK[name]
        self._commands.run(name, broker, self._brokers[broker], meanwhile)
        if name != "stop":  # a broker that was asked to end may take its time, whatever its command waits for
            self._taken.add(broker)
            with suppress(TargetError):  # a full disk: it is watched for longer, should this run be killed
                self._journal.has_taken(broker)

    def _wait_until_well(self, broker: int, meanwhile: Callable[[], None]) -> None:
        """Wait for other topics too: the effect of a fault on them must be over before the next."""

        def well() -> None:
            if reason := self._unwell():
                raise NotYet(reason)

        failure = f"broker {broker} is not taken away: the cluster was not well"
        not_yet = (NotYet, TargetError)
        poll_until(failure, well, within_s=WELL_WITHIN_S, every_s=LOOK_EVERY_S, not_yet=not_yet, check=meanwhile)
