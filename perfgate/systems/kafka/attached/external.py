"""Real brokers as targets, one cluster or two: a run leaves nothing behind there and keeps the limits of its file."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from confluent_kafka.admin import AdminClient

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import NO_USAGE, ClusterSpec, FaultScenario, Scenario
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.model.target import Meter, OfCluster
from perfgate.systems.attached.manifest import Manifest, Occupied, away_from, leftovers, occupy
from perfgate.systems.kafka.attached.cluster import BACK_S, ExternalCluster, time_is_up, unwell
from perfgate.systems.kafka.attached.described import DescribedTarget
from perfgate.systems.kafka.attached.diagnosis import reachable
from perfgate.systems.kafka.attached.identity import (
    gone,
    refuse_a_silent_zone,
    refuse_another_number,
    refuse_other_clusters,
    settings_digest,
    those_that_tell,
)
from perfgate.systems.kafka.attached.leftovers import Cleaner, may_live
from perfgate.systems.kafka.attached.limits import beyond, lacks_brokers, lacks_permission, no_fault
from perfgate.systems.kafka.attached.topic_trial import TopicTrial, check_permissions
from perfgate.systems.kafka.client.admin import cluster_id_at, sees_all_topics, version_of
from perfgate.systems.kafka.client.topics import REQUEST_TIMEOUT_S, answer

LOOK_AGAIN_S = 0.5
LOOK_WITHIN_S = 5.0
"""A cluster whose state takes longer to ask for cannot be watched, and is refused."""


class ExternalTarget:
    """Attaches to described brokers; see :class:`perfgate.model.target.Target`."""

    kind = "brokers"
    own = False

    def __init__(
        self,
        described: DescribedTarget,
        *,
        run_id: str,
        manifests: Path,
        note: Callable[[str], None],
        unhealthy_is_fine: bool = False,
        broker_config_allowed: bool = False,
        faults_allowed: bool = False,
        parallel_is_fine: bool = False,
        others_ended: bool = False,
    ) -> None:
        """`manifests`: folder of what runs have made; `unhealthy_is_fine`: start although partitions are not well.

        `parallel_is_fine`: start although another run is on the cluster, unless broker settings may be changed;
        `others_ended`: runs of other hosts have, so that their leftovers can be put back.
        """
        self._described = self._usable = described
        self.dedicated = described.dedicated
        self._run_id = run_id
        self._manifests = manifests
        self._note = note
        self._unhealthy_is_fine = unhealthy_is_fine
        self._parallel_is_fine = parallel_is_fine
        self._others_ended = others_ended
        self._occupied: TextIO | None = None
        self._blind = False
        """Whether other topics cannot be seen."""
        self._broker_config_allowed = broker_config_allowed and described.broker_config_allowed
        self._faults_allowed = faults_allowed
        self._alive: ExternalCluster | None = None
        self._not_put_back: list[ExternalCluster] = []
        self.left_behind: tuple[str, ...] = ()
        """What could not be put back, as instructions for a person."""
        self._brokers: Mapping[int, str] = {}
        self._racks: Mapping[int, str | None] = {}
        self._cluster_id = ""
        self._version, self._settings = described.version, ""
        self._meter = Meter(described.limits.total_bytes)
        self._ends_at = time.monotonic() + described.limits.most_s
        self._cleaner = Cleaner(described, note)
        self._back: set[int] = set()
        """Brokers that were brought back before the connection."""
        self._trial: TopicTrial | None = None

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
        """Connect, remove the leftovers of killed runs, and refuse a cluster that is not well.

        Raises ConfigurationError with cause and remedy.
        """
        forms = {
            replace(spec, config=(), brokers=ClusterSpec().brokers, log_dirs=1, security="plaintext") for spec in specs
        }
        if len(forms) > 1 or any(form != ClusterSpec(version=form.version) for form in forms):
            raise ConfigurationError(
                "version, image, number, JVM options, CPU and memory of real brokers are not this suite's to change; "
                "compare them on --target embedded or containers"
            )
        try:
            self._attach(self._reached())
        except TargetError as error:
            raise ConfigurationError(f"{self._described.name}: {error}") from error

    def clean_up(self, run_id: str = "") -> tuple[str, ...]:
        """Put back what ended runs have left here, of the one named or of all; return what cannot be.

        Leftovers of another host's run are put back when that run is named, or `others_ended`. Raises
        ConfigurationError.
        """
        try:
            admin = self._reached(run_id)
            self._enter()
        except TargetError as error:
            raise ConfigurationError(f"{self._described.name}: {error}") from error
        found = [one for one in leftovers(self._manifests, self._cluster_id) if run_id in ("", one.run_id)]
        if not found:
            whose = f"no run {run_id} is noted" if run_id else "no run is noted to have left anything"
            self._note(f"nothing to put back: {whose} in {self._manifests}")
        ended = [one for one in found if one.has_ended or self._others_ended or run_id]
        others = [f"{may_live(one)}; once it has ended: --others" for one in found if one not in ended]
        return (*self._cleaner.put_back(admin, ended), *others)

    def _reached(self, run_id: str = "") -> AdminClient:
        """Return an admin client of brokers that answer, and learn which cluster they are.

        Where they do not, a run that was killed may have taken away the only one that the file names, or too many for
        the others to answer.
        """
        try:
            return self._connected()
        except (ConfigurationError, TargetError) as error:
            ended = [
                one
                for one in away_from(self._manifests, self._described.identity)
                if self._described.cluster_id in ("", one.cluster_id)
                and (one.run_id == run_id if run_id else one.has_ended or self._others_ended)
            ]
            if not ended:
                raise
            self._note(f"note: {error}; a run that has ended took a broker away: bringing it back")
            self._back |= {broker for one in ended for broker in one.away}
            self.left_behind = tuple(text for one in ended for text in self._cleaner.bring_brokers_back(one))
            try:
                admin = self._connected()
            except (ConfigurationError, TargetError) as still:
                raise ConfigurationError("; ".join([*self.left_behind, str(still)])) from still
            self.left_behind = ()
            return admin

    def _connected(self) -> AdminClient:
        admin, problems = reachable(self._described.bootstrap, dict(self._described.client))
        for words in (*self._described.left_out, *self._described.weaknesses):
            self._note(f"note: {words}")
        for problem in problems:
            self._note(f"note: {problem}; going on with the other servers")
        self._learn(admin)
        self._note(
            f"cluster {self._cluster_id}: " + ", ".join(f"broker {id_} at {at}" for id_, at in self._brokers.items())
        )
        return admin

    def _learn(self, admin: AdminClient, back: Collection[int] = ()) -> None:
        """Learn which cluster this is and which brokers it has; those that are `back` are waited for."""

        def all_there() -> None:
            described = answer(admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S), "describing the cluster")
            self._cluster_id = described.cluster_id
            self._brokers = {node.id: f"{node.host}:{node.port}" for node in described.nodes}
            self._racks = {node.id: node.rack for node in described.nodes}
            missing = sorted(set(back) - set(self._brokers))
            if missing:
                raise NotYet(f"it does not count broker {missing[0]}, which was brought back")

        poll_until("the cluster was not whole", all_there, within_s=BACK_S, every_s=LOOK_AGAIN_S)

    def _enter(self) -> None:
        """Make sure that this is one cluster, and that no other run is on it, or this one changes no setting there."""
        refuse_other_clusters(self._described, self._cluster_id)
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

    def _attach(self, admin: AdminClient) -> None:
        """Clean up after killed runs, learn what these brokers are, and check whether a run may start."""
        self._enter()
        found = list(leftovers(self._manifests, self._cluster_id))
        ended = [one for one in found if one.has_ended or self._others_ended]
        for leftover in found:
            if leftover not in ended:
                self._note(f"note: {may_live(leftover)}; once it has ended, --clean-up-others puts it back")
        away = {broker for one in ended for broker in one.away}
        if left := self._cleaner.put_back(admin, ended):
            raise TargetError("; ".join(left))
        self._learn(admin, away | self._back)
        refuse_another_number(self._described, self._brokers)
        self._version = self._version or version_of(admin, next(iter(self._brokers)))
        began = time.monotonic()
        reason = unwell(admin, self._described.limits.under_replicated)
        if (took := time.monotonic() - began) > LOOK_WITHIN_S:
            raise ConfigurationError(
                f"{self._described.name}: the brokers took {took:.1f} s to tell the state of their partitions (at most "
                f"{LOOK_WITHIN_S:g} s): a run could not be stopped in time when it does them harm"
            )
        if reason and not self._unhealthy_is_fine:
            raise ConfigurationError(
                f"{self._described.name}: {reason}: load would make it worse, and the numbers would be those of a sick "
                "cluster; wait until it is well, or start all the same with --allow-unhealthy"
            )
        refuse_a_silent_zone(self._described, self._cluster_id)
        self._usable = those_that_tell(self._described, self._cluster_id, self._note)
        manifest = self._manifest()
        user = dict(self._described.client).get("sasl.username", "this client")
        self._blind = not sees_all_topics(admin)
        if self._blind:
            self._note(
                f"note: {user} sees no topic but those of runs: whether others are offline or under-replicated cannot "
                "be told; grant it Describe on all topics (docs/targets.md)"
            )
        try:
            check_permissions(admin, f"{self._described.prefix}{self._run_id}-probe", manifest, user, self._note)
        finally:
            manifest.close()
        self._settings = settings_digest(admin, self._brokers)
        self._trial = TopicTrial(admin, f"{self._described.prefix}{self._run_id}-trial", self._manifest, self._note)

    def _manifest(self) -> Manifest:
        return Manifest(
            self._manifests, cluster_id=self._cluster_id, run_id=self._run_id, target=self._described.identity
        )

    @property
    def brokers(self) -> Mapping[int, str]:
        """Advertised addresses (host:port) by id; empty before `prepare`."""
        return self._brokers

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        return {
            "kind": self.kind,
            "name": self._described.name,
            "kafka_version": self._version,
            "brokers": len(self._brokers),
            "racks": sorted({rack for rack in self._racks.values() if rack}),
            "cluster_id": self._cluster_id,
            "connection_digest": self._described.connection_digest,
            "config_digest": self._settings,
            "no_usage": "" if self._described.prometheus else NO_USAGE,
        }

    def cannot(self, scenario: Scenario) -> str | None:
        """Return why these brokers cannot run the scenario, or None when they can.

        Before the brokers are known, by the target file and the run's options alone.
        """
        if self._brokers and (lacking := lacks_brokers(scenario, len(self._brokers))):
            return lacking
        if isinstance(scenario, FaultScenario) and (
            reason := no_fault(
                scenario, self._described, self._brokers, allowed=self._faults_allowed, blind=self._blind
            )
        ):
            return reason
        reason = lacks_permission(scenario, self._described, broker_config_allowed=self._broker_config_allowed)
        reason = reason or beyond(self._described.limits, scenario)
        tried = self._trial is not None and not (reason or scenario.refusal)
        return self._trial.refusal(scenario.topic) if self._trial and tried else reason

    def gone(self) -> str:
        """Return which brokers of the start do not answer any more; empty where all do."""
        return gone(self._described, self._brokers) if self._brokers else ""

    def cluster(self, spec: ClusterSpec) -> ExternalCluster:
        """Return the brokers, with the spec's settings. Raises TargetError while something has not been put back."""
        if time.monotonic() > self._ends_at:
            self._meter.stopped, self._meter.by_limit = time_is_up(self._described.limits.most_s), True
        if self._meter.stopped:
            self.close()
            self._meter.stay_stopped()
        # A broker that is still away is one whose fault was broken off.
        away = self._alive is not None and bool(self._alive.faults.away)
        if self._alive is None or self._alive.spec != spec or self.left_behind or away:
            self.close()
            if self.left_behind:
                raise TargetError(f"nothing more is done to these brokers: {'; '.join(self.left_behind)}")
            manifest = self._manifest()
            self._alive = ExternalCluster(
                spec,
                self._usable,
                manifest,
                brokers=self._brokers,
                facts=self.facts(spec),
                meter=self._meter,
                ends_at=self._ends_at,
                note=self._note,
            )
            try:
                self._alive.apply_settings()
            except BaseException:
                self.close()  # brokers of which some have the settings are none that the next scenario may find
                raise
        return self._alive

    def beside(self, spec: ClusterSpec) -> ExternalCluster:
        raise TargetError("real brokers cannot be started beside others")

    def keep_aot_cache(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Bring brokers back, put settings back and delete what the run has made: every step, whatever fails.

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


class TwoTargets:
    """Two clusters that exist, each with the limits of its own file; `beside` gives the other one."""

    kind = ExternalTarget.kind
    own = False

    def __init__(self, first: ExternalTarget, other: ExternalTarget, described: DescribedTarget) -> None:
        """`described`: the other one's file."""
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
        one = self._first.facts(specs[0])["cluster_id"]

        def refuse_the_same(other: object) -> None:
            if other == one:
                raise ConfigurationError(
                    f"{self._described.path} describes cluster {one}, as --target does: name another"
                )

        refuse_the_same(cluster_id_at(self._described.bootstrap.partition(",")[0], self._described.client))
        self._other.prepare(specs)
        refuse_the_same(self._other.facts(specs[0])["cluster_id"])

    def facts(self, spec: ClusterSpec) -> Mapping[str, object]:
        """Return the first one's, without usage where either has none."""
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

    def cluster(self, spec: ClusterSpec) -> ExternalCluster:
        return self._first.cluster(spec)

    def beside(self, spec: ClusterSpec) -> ExternalCluster:
        return self._other.cluster(spec)

    def keep_aot_cache(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        try:
            self._first.close()
        finally:
            self._other.close()
            self.left_behind = (*self._first.left_behind, *self._other.left_behind)
