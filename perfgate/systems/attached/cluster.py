"""A cluster of other owners: its health while it is under load, and everything put back in the end."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import NamedTuple, Required, TypedDict, Unpack

from perfgate.model import ClusterSpec, Link, Settings
from perfgate.model.errors import BrokersFailedError, TargetError
from perfgate.model.target import Meter
from perfgate.systems.attached.command_faults import CommandFaults
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.attached.target_file import Described

BACK_S = 120.0
"""Replicas may take this long to be in sync again once a broker is back; then a shrunken set counts."""
HEALTH_EVERY_S = 2.0
HEALTH_AT_MOST_S = 15.0
HEALTH_SHARE = 0.05
"""Share of the time that asking for the state may take: a large cluster is asked less often (HEALTH_AT_MOST_S)."""

AWAY_ASK_S = 2.0
"""Wait for an answer while a broker is away, which may be the broker asked: what follows the fault waits too."""
ALL = "all"
"""In place of a broker's id: the setting is one of the whole cluster."""


class Changed(NamedTuple):
    """A broker's setting that was changed: its dynamic value (None: none), what took effect, the run's own value."""

    broker: str
    name: str
    before: str | None
    effective: str
    value: str


class OfRun(TypedDict, total=False):
    """What a cluster takes over from its target."""

    brokers: Required[Mapping[int, str]]
    """Addresses (host:port), by id."""
    facts: Required[Mapping[str, object]]
    meter: Meter
    ends_at: float
    """When the run has lasted as long as the file allows, in s of the monotonic clock."""
    note: Callable[[str], None]


class OtherClusterError(TargetError):
    """The brokers are not of the cluster that the run began on."""


def require_same(reported: str | None, meant: str) -> None:
    """Raise OtherClusterError when brokers report another cluster's id than `meant`; no answer is accepted."""
    if reported and meant and reported != meant:
        raise OtherClusterError(
            f"these brokers are of cluster {reported}, and the run began on cluster {meant}: the names of its servers "
            "lead elsewhere now"
        )


def time_is_up(most_s: float) -> str:
    return f"stopped: the run has lasted as long as [limits] minutes allows, {most_s / 60:g} min"


class AttachedCluster(ABC):
    """Brokers that were there before; half of a :class:`perfgate.model.target.Cluster`."""

    own = False
    rtt_of: str
    """What a round trip is of, for the facts."""
    role_of: Callable[[int], str] | None = None
    """The role of a node of `measured`; None: all are brokers."""

    def __init__(self, spec: ClusterSpec, described: Described, manifest: Manifest, **of_run: Unpack[OfRun]) -> None:
        self.addresses = brokers = of_run["brokers"]
        self._report = of_run.get("note", print)
        self.spec, self._facts = spec, of_run["facts"]
        self._described = described
        self.file = described.path
        self.dedicated, self.prefix = described.dedicated, described.prefix
        self.most_failed = described.limits.error_rate
        self.most_bytes_per_s = described.limits.bytes_per_s
        self.most_read_bytes_per_s = described.limits.read_bytes_per_s
        self.meter = of_run.get("meter") or Meter(described.limits.total_bytes)
        self._ends_at = of_run.get("ends_at", math.inf)
        self._manifest = manifest
        self._checked, self._pause, self._catching_up_until = 0.0, HEALTH_EVERY_S, 0.0
        self._excused: frozenset[int] = frozenset()
        """Brokers that this run has taken away since all was well: their replicas may be missing."""
        self.faults = CommandFaults(
            described.faults,
            brokers,
            manifest,
            seen=self._answers,
            unwell=self._unwell_before_a_fault,
            allowed=described.fault_brokers,
            at_a_time=2 if described.two_down_allowed else 1,
            session_s=self._session_s,
        )
        self._changed: list[Changed] = []

    @abstractmethod
    def apply_settings(self) -> None:
        """Set the spec's broker settings, having noted what they were."""

    @abstractmethod
    def _unwell(self, excused: Collection[int], within_s: float | None = None) -> str:
        """The cluster's problem, apart from replicas that `excused` brokers miss; empty: none.

        `within_s`: for its answer; None: as long as any request may take. Raises TargetError without an answer,
        OtherClusterError when it is another cluster.
        """

    @abstractmethod
    def _answers(self, address: str) -> bool:
        """Whether a broker of the run's cluster answers at an address: one that stands still takes connections too."""

    @abstractmethod
    def _session_s(self) -> float:
        """How long a broker may be silent before the others take its topics, in s; 0 where that is not known."""

    @abstractmethod
    def _put_back(self, change: Changed) -> str:
        """Put a setting back, on the same cluster only; return a note where another client has changed it since."""

    @abstractmethod
    def _delete_topics(self) -> list[str]:
        """Delete the topics of the run; return what is left for a person to do."""

    def _unwell_before_a_fault(self) -> str:
        """The cluster's problem before a broker is taken away; where there is none, earlier faults excuse no more."""
        reason = self._unwell(())
        if not reason:
            self._excused = frozenset()
        return reason

    def _note(self, broker: str, name: str, before: str | None, effective: str, value: str) -> None:
        self._manifest.changes(broker, name, before, effective, value)
        self._changed.append(Changed(broker, name, before, effective, value))

    def _put_settings_back(self) -> list[str]:
        """Put changed settings back, the newest change first; return what is left for a person to do."""
        left = []
        for change in reversed(list(self._changed)):
            broker, name, before, _, value = change
            try:
                if note := self._put_back(change):
                    with suppress(OSError):  # a terminal that is gone
                        self._report(note)
            except Exception as error:  # whatever it is, the next step is tried
                whose, was = "brokers" if broker == ALL else f"broker {broker}", "not set" if before is None else before
                left.append(f"{whose} may still have {name} = {value}, it was {was}: {error}")
            else:
                self._changed.remove(change)
                with suppress(TargetError):  # a full disk keeps nothing else changed
                    self._manifest.restored(broker, name)
        return left

    def close(self) -> list[str]:
        """Bring brokers back, put settings back, delete topics; return what is left for a person; may be repeated."""
        left = [*self.faults.restore(), *self._put_settings_back(), *self._delete_topics()]
        if not left and (stays := self._manifest.close()):
            with suppress(OSError):  # a terminal that is gone
                self._report(f"note: {stays}")
        return left

    def bootstrap(self, link: Link) -> str:
        return self._described.cross_zone_bootstrap if link.crosses_zones else self._described.bootstrap

    def client_settings(self) -> Settings:
        return self._described.client

    def check(self) -> None:
        """Raise TargetError for a cluster less well than the file allows, another cluster, and when the time is up.

        Brokers that this run has taken away are excused until all is well again, for BACK_S at most after their return.
        """
        begin = time.monotonic()
        if begin > self._ends_at:
            self.meter.stop(time_is_up(self._described.limits.most_s), by_limit=True)
        if away := self.faults.away:
            self._excused |= away
            self._catching_up_until = begin + BACK_S
        elif begin > self._catching_up_until:
            self._excused = frozenset()
        if begin - self._checked < self._pause:
            return
        well = False
        try:
            reason = self._unwell(self._excused, AWAY_ASK_S if away else None)
            well = not (reason or away or (self._excused and self._unwell(())))
        except OtherClusterError as error:
            self.meter.stop(f"stopped at once: {error}")
        except TargetError as error:
            reason = "" if away else str(error)  # the broker that is away may be the broker asked
        self._checked = time.monotonic()
        self._pause = min(HEALTH_AT_MOST_S, max(HEALTH_EVERY_S, (self._checked - begin) / HEALTH_SHARE))
        if well:
            self._excused = frozenset()
            self.faults.settled()
        if reason:
            self.meter.stop(f"stopped at once, as the target file asks for: {reason}", BrokersFailedError)

    @property
    def measured(self) -> Mapping[int, str]:
        return self.addresses

    def facts(self) -> Mapping[str, object]:
        return {**self._facts, "rtt_of": self.rtt_of}

    def log_tail(self, lines: int = 40) -> str:
        """Return nothing: the brokers' logs are out of reach."""
        return ""
