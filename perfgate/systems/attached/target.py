"""Real brokers as targets, one cluster or two: a run leaves nothing behind there and keeps the limits of its file."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, Required, TextIO, TypedDict, TypeVar, Unpack

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import NO_USAGE, ClusterSpec, FaultScenario, Scenario, TopicSpec
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.target import Meter, OfCluster
from perfgate.systems.attached.cluster import AttachedCluster, OfRun, time_is_up
from perfgate.systems.attached.leftovers import Admin, Cleaner, may_live
from perfgate.systems.attached.limits import no_fault
from perfgate.systems.attached.manifest import Leftover, Manifest, Occupied, away_from, leftovers, occupy
from perfgate.systems.attached.target_file import Described

LOOK_WITHIN_S = 5.0
"""A cluster whose state takes longer to ask for cannot be watched, and is refused."""
THERE_WITHIN_S, ASK_EVERY_S = 10.0, 0.5
"""Time for a broker to register again, as after a rolling restart by others."""
Kept = TypeVar("Kept", bound=AttachedCluster)


class Permitted(TypedDict, total=False):
    """A person's permissions for a run, and the place of its notes: what is not stated is not permitted."""

    run_id: Required[str]
    manifests: Required[Path]
    unhealthy_is_fine: bool
    broker_config_allowed: bool
    faults_allowed: bool
    parallel_is_fine: bool
    """Start although another run is on the cluster, unless broker settings or faults are permitted."""
    others_ended: bool
    """Runs of other hosts have, so that their leftovers can be put back."""


class Trial(Protocol):
    """Creates topics as scenarios declare them, each kind once."""

    def refusal(self, topic: TopicSpec) -> OfCluster | None:
        """The reason why these brokers do not have such a topic; None when they do, or when that is not known.

        Raises ConfigurationError where a topic of the trial cannot be deleted.
        """


def digest_of(settings: Iterable[tuple[str, str]]) -> str:
    """Digest of the settings (name, value) of all brokers; empty where a broker does not report its own."""
    try:
        own = sorted({*settings})
    except TargetError:
        return ""
    return hashlib.sha256(repr(own).encode()).hexdigest()[:12] if own else ""


class AttachedTarget(ABC, Generic[Admin, Kept]):
    """Attaches to described brokers; see :class:`perfgate.model.target.Target`."""

    kind = "brokers"
    own = False

    def __init__(
        self,
        described: Described,
        cleaner: Cleaner[Admin],
        *,
        note: Callable[[str], None],
        **permitted: Unpack[Permitted],
    ) -> None:
        self._described = described
        self.dedicated = described.dedicated
        self._note = note
        self._run_id, self._manifests = permitted["run_id"], permitted["manifests"]
        self._unhealthy_is_fine = permitted.get("unhealthy_is_fine", False)
        self._parallel_is_fine = permitted.get("parallel_is_fine", False)
        self._others_ended = permitted.get("others_ended", False)
        self._occupied: TextIO | None = None
        self._broker_config_allowed = permitted.get("broker_config_allowed", False) and described.broker_config_allowed
        self._faults_allowed = permitted.get("faults_allowed", False)
        self._alive: Kept | None = None
        self._not_put_back: list[Kept] = []
        self.left_behind: tuple[str, ...] = ()
        """What could not be put back, as instructions for a person."""
        self._brokers: Mapping[int, str] = {}
        self._cluster_id, self._config_digest = "", ""
        self._trial: Trial | None = None
        self._meter = Meter(described.limits.total_bytes)
        self._ends_at = time.monotonic() + described.limits.most_s
        self._cleaner = cleaner
        self._back: dict[str, int] = {}
        """Brokers that were brought back before the connection: ids by address."""

    @abstractmethod
    def _connected(self) -> Admin:
        """Return a client of brokers that answer, and learn their cluster. Raises TargetError or ConfigurationError."""

    @abstractmethod
    def _refuse_others(self, admin: Admin) -> None:
        """Raise ConfigurationError where these are not the brokers that the file means, or not of one cluster."""

    @abstractmethod
    def _attach(self, admin: Admin) -> None:
        """Check whether a run may start, after `_enter_clean`. Raises ConfigurationError or TargetError."""

    @abstractmethod
    def _seen(self, admin: Admin) -> str:
        """Return the number and kind of the nodes. Raises as a start does that refuses their present state."""

    @abstractmethod
    def _may_make_topics(self, admin: Admin) -> str:
        """Return where this client may create topics, without creating any. Raises ConfigurationError if nowhere."""

    @abstractmethod
    def _make(self, spec: ClusterSpec, manifest: Manifest) -> Kept: ...

    @abstractmethod
    def is_that_of(self, cluster_id: str) -> bool:
        """Whether the file's first server is of the cluster of this id; False without an answer."""

    @abstractmethod
    def _facts(self) -> Mapping[str, object]: ...

    @abstractmethod
    def _lacks_nodes(self, scenario: Scenario) -> str | None:
        """The reason why the scenario has no meaning on a cluster of this size; None when it has, or none is known."""

    @abstractmethod
    def _not_permitted(self, scenario: Scenario) -> str | None:
        """What the target file and the run's options do not permit the scenario; None when they permit all."""

    @property
    @abstractmethod
    def _blind(self) -> str: ...

    @abstractmethod
    def _there(self) -> list[int] | list[str]:
        """The brokers that take part now, in order, as `_at_start`. Raises TargetError."""

    @abstractmethod
    def _at_start(self) -> list[int] | list[str]:
        """The brokers of the start, in order, by what they are known by from look to look."""

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Facts about such a cluster that are known before it starts."""
        return {
            "kind": self.kind,
            "name": self._described.name,
            **self._facts(),
            "cluster_id": self._cluster_id,
            "connection_digest": self._described.connection_digest,
            "config_digest": self._config_digest,
            "no_usage": "" if self._described.prometheus else NO_USAGE,
        }

    def cannot(self, scenario: Scenario) -> str | None:
        """Return why these brokers cannot run the scenario; before a start by the file and the run's options alone."""
        if reason := self._lacks_nodes(scenario):
            return reason
        if isinstance(scenario, FaultScenario) and (reason := self._no_fault(scenario)):
            return reason
        if (reason := self._not_permitted(scenario)) or scenario.refusal or self._trial is None:
            return reason
        return self._trial.refusal(scenario.topic)

    def _no_fault(self, scenario: FaultScenario) -> str | None:
        allowed = self._faults_allowed
        return no_fault(scenario, self._described, self._brokers, allowed=allowed, blind=self._blind)

    def gone(self) -> str:
        """Return how the brokers differ from those of the start, new ones too, or that none answered; empty: same."""

        def same() -> None:
            if (now := self._there()) != before:
                at_start, at_end = (", ".join(map(str, brokers)) for brokers in (before, now))
                raise NotYet(f"brokers {at_start} at the start of the run, and {at_end} at its end")

        before = self._at_start()
        try:
            if before:
                failure = "the brokers are not those of the start"
                poll_until(failure, same, within_s=THERE_WITHIN_S, every_s=ASK_EVERY_S)
        except TargetError as error:
            return str(error)
        return ""

    def _unwell_in_time(self, unwell: Callable[[], str], what: str = "their state") -> str:
        """The cluster's problem, by `unwell`. Raises ConfigurationError when that takes too long."""
        began = time.monotonic()
        reason = unwell()
        if (took := time.monotonic() - began) > LOOK_WITHIN_S:
            raise ConfigurationError(
                f"{self._described.name}: the brokers took {took:.1f} s to tell {what} (at most {LOOK_WITHIN_S:g} s): "
                "a run could not be stopped in time when it does them harm"
            )
        return reason

    def _refuse_sick(self, reason: str) -> None:
        if reason and not self._unhealthy_is_fine:
            raise ConfigurationError(
                f"{self._described.name}: {reason}: load would make it worse, and the numbers would be those of a sick "
                "cluster; wait until it is well, or start all the same with --allow-unhealthy"
            )

    def _plain(self, spec: ClusterSpec) -> ClusterSpec:
        return replace(spec, config=(), brokers=ClusterSpec().brokers, log_dirs=1, security="plaintext")

    def check_room(self, at_a_time: float, in_all: float) -> None:
        allowed = self._described.limits.total_bytes
        if in_all > allowed:
            raise ConfigurationError(
                f"{self._described.path}: [limits] bytes allows {allowed / 1e9:,.1f} GB, and this run could write "
                f"{in_all / 1e9:,.1f} GB (replicas, warm-up, confirmation counted); take fewer "
                "scenarios (-k, --family), fewer or shorter rounds (--rounds, --window, --broker-warmup, --budget), a "
                "lower [limits] mib-per-s, or raise the limit"
            )

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        """Connect, undo what killed runs have left, refuse a cluster that is not well. Raises ConfigurationError."""
        forms = {self._plain(spec) for spec in specs}
        if len(forms) > 1 or any(form != ClusterSpec(system=form.system, version=form.version) for form in forms):
            raise ConfigurationError(
                "version, image, number, JVM options, CPU and memory of real brokers are not this suite's to change; "
                "compare them on --target embedded or containers"
            )
        try:
            self._attach(self._reached())
        except TargetError as error:
            raise ConfigurationError(f"{self._described.name}: {error}") from error

    def looks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yield what a start asks of the brokers, by name; a question changes nothing, and raises as a start does."""
        admins: list[Admin] = []

        def log_in() -> str:
            admins.append(self._connected())
            self._refuse_others(admins[0])
            return f"cluster {self._cluster_id}" if self._cluster_id else "done"

        yield "log-in", log_in
        yield "brokers", lambda: self._seen(admins[0])
        yield "topics", lambda: self._may_make_topics(admins[0])

    def clean_up(self, run_id: str = "") -> tuple[str, ...]:
        """Put back what ended runs left here, of other hosts if named or `others_ended`; return what cannot be."""
        try:
            admin = self._reached(run_id)
            self._enter(admin)
        except TargetError as error:
            raise ConfigurationError(f"{self._described.name}: {error}") from error
        here = leftovers(self._manifests, self._cluster_id)
        noted = [leftover for leftover in here if run_id in ("", leftover.run_id)]
        if not noted:
            whose = f"no run {run_id} is noted" if run_id else "no run is noted to have left anything"
            self._note(f"nothing to put back: {whose} in {self._manifests}")
        ended = [leftover for leftover in noted if leftover.has_ended or self._others_ended or run_id]
        others = [f"{may_live(leftover)}; once it has ended: --others" for leftover in noted if leftover not in ended]
        return (*self._cleaner.put_back(admin, ended), *others)

    def _reached(self, run_id: str = "") -> Admin:
        """Return a client of brokers that answer, and learn which cluster they are.

        Where they do not, a run that was killed may have taken away the only broker that the file names, or too many
        for the others to answer.
        """
        try:
            return self._connected()
        except (ConfigurationError, TargetError) as error:
            ended = [
                leftover
                for leftover in away_from(self._manifests, self._described.identity)
                if self._may_be_of_file(leftover.cluster_id)
                and (leftover.run_id == run_id if run_id else leftover.has_ended or self._others_ended)
            ]
            if not ended:
                raise
            self._note(f"note: {error}; a run that has ended took a broker away: bringing it back")
            self._back |= _away(ended)
            self.left_behind = tuple(text for leftover in ended for text in self._cleaner.bring_brokers_back(leftover))
            try:
                admin = self._connected()
            except (ConfigurationError, TargetError) as still:
                raise ConfigurationError("; ".join([*self.left_behind, str(still)])) from still
            self.left_behind = ()
            return admin

    def _may_be_of_file(self, cluster_id: str) -> bool:
        """Whether a cluster of this id, as a run has noted it, can be that of the file."""
        return self._described.cluster_id in ("", cluster_id)

    def _enter(self, admin: Admin) -> None:
        """Make sure that these are brokers of a single cluster, and that no other run is on it unless permitted."""
        self._refuse_others(admin)
        try:
            self._occupied = occupy(self._manifests, self._cluster_id)
        except Occupied:
            beside = f"{self._described.name}: another run of this machine is on the cluster: "
            if not self._parallel_is_fine:
                raise ConfigurationError(
                    f"{beside}both would measure each other, and load it twice as much as the file allows; wait until "
                    "it has ended (a run may insist: --allow-parallel)"
                ) from None
            if self._broker_config_allowed:
                raise ConfigurationError(
                    f"{beside}of a setting that both change, what the first one set would stay for good; leave "
                    "--allow-broker-config out, or wait until it has ended"
                ) from None
            if self._faults_allowed:
                raise ConfigurationError(
                    f"{beside}each may take a broker away while the other does, which stops writes of others; leave "
                    "--allow-faults out, or wait until it has ended"
                ) from None
            self._occupied = occupy(self._manifests, self._cluster_id, beside=True)

    def _enter_clean(self, admin: Admin) -> Mapping[str, int]:
        """Put back what killed runs left, or raise TargetError; return the brokers brought back, ids by address."""
        self._enter(admin)
        noted = list(leftovers(self._manifests, self._cluster_id))
        ended = [leftover for leftover in noted if leftover.has_ended or self._others_ended]
        for leftover in noted:
            if leftover not in ended:
                self._note(f"note: {may_live(leftover)}; once it has ended, --clean-up-others puts it back")
        away = _away(ended)
        if left := self._cleaner.put_back(admin, ended):
            raise TargetError("; ".join(left))
        return away | self._back

    def _of_run(self, spec: ClusterSpec) -> OfRun:
        return OfRun(
            brokers=self._brokers, facts=self.facts(spec), meter=self._meter, ends_at=self._ends_at, note=self._note
        )

    def _manifest(self) -> Manifest:
        return Manifest(
            self._manifests, cluster_id=self._cluster_id, run_id=self._run_id, target=self._described.identity
        )

    @property
    def measured(self) -> Mapping[int, str]:
        """The nodes whose usage counts: addresses (host:port) by id; empty before `prepare`."""
        return self._brokers

    def cluster(self, spec: ClusterSpec) -> Kept:
        """Return the brokers, with the spec's settings. Raises TargetError while something has not been put back."""
        if time.monotonic() > self._ends_at:
            self._meter.stopped, self._meter.by_limit = time_is_up(self._described.limits.most_s), True
        if self._meter.stopped:
            self.close()
            self._meter.stay_stopped()
        # The fault of a broker that is still away was broken off.
        away = self._alive is not None and bool(self._alive.faults.away)
        if self._alive is None or self._alive.spec != spec or self.left_behind or away:
            self.close()
            if self.left_behind:
                raise TargetError(f"nothing more is done to these brokers: {'; '.join(self.left_behind)}")
            self._alive = self._make(spec, self._manifest())
            try:
                self._alive.apply_settings()
            except BaseException:
                self.close()  # brokers of which some have the settings are none that the next scenario may find
                raise
        return self._alive

    def beside(self, spec: ClusterSpec) -> Kept:
        raise TargetError("real brokers cannot be started beside others")

    def keep_aot_cache(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Bring brokers back, put settings back and delete the run's topics: every step, whatever fails.

        What could not be put back stays in `left_behind`, is tried again at the next call, and by the next start.
        """
        if self._alive is not None:
            self._not_put_back.append(self._alive)
            self._alive = None
        left = {cluster: cluster.close() for cluster in self._not_put_back}
        self._not_put_back = [cluster for cluster, what in left.items() if what]
        self.left_behind = tuple(text for what in left.values() for text in what)
        for text in self.left_behind:
            with suppress(OSError):  # the terminal may be gone
                self._note(f"{text}; tried again later")


def _away(ended: Iterable[Leftover]) -> dict[str, int]:
    return {taken.address: broker for leftover in ended for broker, taken in leftover.away.items()}


class TwoTargets(Generic[Kept]):
    """Two clusters that exist, each with the limits of its own file; `beside` gives the second."""

    kind = AttachedTarget.kind
    own = False

    def __init__(
        self, first: AttachedTarget[Any, Kept], other: AttachedTarget[Any, Kept], described: Described
    ) -> None:
        """`described`: the second cluster's file."""
        self._first, self._other, self._described = first, other, described
        self.dedicated = first.dedicated and other.dedicated
        self.left_behind: tuple[str, ...] = ()

    def check_room(self, at_a_time: float, in_all: float) -> None:
        """Raise ConfigurationError when either file does not allow all of it: the faster side writes more."""
        self._first.check_room(at_a_time, in_all)
        self._other.check_room(at_a_time, in_all)

    def prepare(self, specs: Iterable[ClusterSpec]) -> None:
        specs = list(specs)
        self._first.prepare(specs)
        cluster_id = str(self._first.facts(specs[0])["cluster_id"])
        same = ConfigurationError(
            f"{self._described.path} describes cluster {cluster_id}, as --target does: name another"
        )
        if self._other.is_that_of(cluster_id):
            raise same
        self._other.prepare(specs)
        if self._other.facts(specs[0])["cluster_id"] == cluster_id:
            raise same

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Facts about the first cluster, without usage where either has none."""
        first, other = self._first.facts(spec), self._other.facts(spec)
        return {**first, "no_usage": first["no_usage"] or other["no_usage"]}

    def cannot(self, scenario: Scenario) -> str | None:
        if reason := self._first.cannot(scenario):
            return reason
        reason = self._other.cannot(scenario)
        if reason is None:
            return None
        kind = OfCluster if isinstance(reason, OfCluster) else str
        return kind(f"{self._described.name}: {reason}")

    def gone(self) -> str:
        return "; ".join(filter(None, (self._first.gone(), self._other.gone())))

    def cluster(self, spec: ClusterSpec) -> Kept:
        return self._first.cluster(spec)

    def beside(self, spec: ClusterSpec) -> Kept:
        return self._other.cluster(spec)

    def keep_aot_cache(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        try:
            self._first.close()
        finally:
            self._other.close()
            self.left_behind = (*self._first.left_behind, *self._other.left_behind)
