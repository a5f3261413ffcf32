"""Real Pulsar brokers as targets: a run leaves nothing behind there and keeps the limits of its file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Unpack

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import ClusterSpec, FaultScenario, Scenario
from perfgate.model.errors import BrokersFailedError, ConfigurationError, TargetError
from perfgate.model.pages import page
from perfgate.model.target import PREFIX, OfCluster
from perfgate.systems.attached.cluster import BACK_S
from perfgate.systems.attached.diagnosis import Keys, context_of, problem_of
from perfgate.systems.attached.leftovers import Cleaner
from perfgate.systems.attached.manifest import Leftover, Manifest
from perfgate.systems.attached.target import AttachedTarget, Permitted, digest_of
from perfgate.systems.pulsar.attached.cluster import NO_SETTINGS, AttachedPulsar, put_back
from perfgate.systems.pulsar.attached.described import DescribedPulsar
from perfgate.systems.pulsar.attached.limits import beyond, lacks_nodes, lacks_permission
from perfgate.systems.pulsar.attached.nodes import (
    DENIED,
    UNKNOWN,
    answers,
    listed,
    name_in,
    nodes_of,
    not_well,
    refuse_another_number,
    refuse_others,
    settings_of,
    unhealthy,
    unwell,
)
from perfgate.systems.pulsar.attached.own_namespace import PROPERTY, remove
from perfgate.systems.pulsar.attached.trial import Trials
from perfgate.systems.pulsar.client.admin import Admin
from perfgate.systems.pulsar.client.http import RefusedError

FAILURES = (TargetError, ConfigurationError, OSError)


class PulsarCleaner(Cleaner[Admin]):
    _described: DescribedPulsar

    def put_back(self, admin: Admin, leftovers: Sequence[Leftover]) -> list[str]:
        """See :meth:`Cleaner.put_back`: of those that are this cluster's, as far as is known."""
        return super().put_back(admin, [leftover for leftover in leftovers if self._may_be_here(admin, leftover)])

    def _may_be_here(self, admin: Admin, leftover: Leftover) -> bool:
        """Whether the run may have been on this cluster: others may have its name, and its metadata's address too.

        A run by another file, or other servers, was where its namespace is.
        """
        if leftover.target in ("", self._described.identity) or not leftover.topics:
            return True
        try:
            if any(admin.properties(name) is not None for name in leftover.topics):
                return True
        except TargetError:
            return True  # the clean-up reports it
        self._note(
            f"note: what run {leftover.run_id} has left is not put back: by {leftover.target} it was on a cluster of "
            f"the same id, and namespace {next(iter(leftover.topics))} is not here; a start by that file sees to it"
        )
        return False

    def _answers(self, address: str, cluster_id: str) -> bool:
        """Whether the broker at an address is of this cluster, and ready; by its port for TLS once it is listed."""
        scheme = self._described.admin_urls[0].partition("://")[0]
        if answers(f"{scheme}://{address}", self._described, cluster_id):
            return True
        try:
            nodes = nodes_of(Admin(self._described.admin_urls, self._described.client, tries=1), self._described)
        except TargetError:
            return False
        url = nodes.url_of(address)
        return bool(url) and answers(url, self._described, cluster_id)

    def _clean(self, admin: Admin, leftover: Leftover) -> list[str]:
        """Put settings back, the last first, unless others changed them since; remove the run's own namespaces."""
        failures = []
        try:
            brokers = list(nodes_of(admin, self._described).urls.values()) if leftover.configs else []
        except FAILURES as error:
            return [f"its settings: {error}"]
        for change in reversed(list(leftover.configs)):
            name, value = str(change["name"]), str(change["value"])
            try:
                note = put_back(admin, brokers, name, change["before"], str(change["effective"]), value)
            except FAILURES as error:
                failures.append(f"{name} of the brokers: {error}")
                continue
            leftover.restored(change)
            done = f"put {name} of the brokers back, changed by run {leftover.run_id}"
            self._note(f"{note} (run {leftover.run_id})" if note else done)
        for name, id_ in leftover.topics.items():
            try:
                self._remove(admin, leftover, name, id_)
            except FAILURES as error:
                failures.append(f"namespace {name}: {error}")
        return failures

    def _remove(self, admin: Admin, leftover: Leftover, name: str, id_: str) -> None:
        if (properties := admin.properties(name)) is None:
            return
        if properties.get(PROPERTY) == id_ and PREFIX in name:
            remove(admin, name)
            self._note(f"removed namespace {name}, left by run {leftover.run_id}, which was killed")
        else:
            self._note(f"left namespace {name} alone: it is not the one that run {leftover.run_id} made")


LOOK_AGAIN_S = 0.5
BLIND = f"whether a fault hits others cannot be seen: it needs a superuser's role ({page('targets-pulsar')})"
OUT_OF_REACH = (
    "whether a broker is back after a fault cannot be seen: from here not every broker answers at its own address "
    f"({page('targets-pulsar')})"
)
UNNUMBERED = (
    "[faults] brokers counts brokers in the order of their addresses, and while one is away those after it have other "
    "numbers: state brokers = N, how many there are, above all tables of the target file"
)
KEYS = Keys(
    servers="admin-url and service-url",
    protocol="the scheme of admin-url and service-url",
    any_name="tlsHostnameVerificationEnable = false",
    authority="tlsTrustCertsFilePath",
    tls="the tls settings of [client]",
)


class PulsarTarget(AttachedTarget[Admin, AttachedPulsar]):
    """Attaches to Pulsar's described brokers; see :class:`perfgate.model.target.Target`."""

    _described: DescribedPulsar

    def __init__(
        self, described: DescribedPulsar, *, note: Callable[[str], None], **permitted: Unpack[Permitted]
    ) -> None:
        super().__init__(described, PulsarCleaner(described, note), note=note, **permitted)
        self._nodes = UNKNOWN
        self._admin: Admin | None = None
        self._version = ""
        self._not_well: Collection[int] = ()
        """Brokers that a start was let go on with although they are not well."""
        self._number = 0

    def _connected(self) -> Admin:
        described = self._described
        problems = {url: text for url in described.admin_urls if (text := self._problem(url))}
        for weakness in described.weaknesses:
            self._note(f"note: {weakness}")
        if len(problems) == len(described.admin_urls):
            raise ConfigurationError("; ".join(problems.values()))
        for problem in problems.values():
            self._note(f"note: {problem}; going on with the other addresses")
        admin = Admin([url for url in described.admin_urls if url not in problems], described.client)
        self._learn(admin)
        return admin

    def _problem(self, url: str) -> str:
        scheme, _, server = url.partition("://")
        client = dict(self._described.client)
        context = partial(
            context_of,
            authorities=client.get("tlsTrustCertsFilePath"),
            names=client.get("tlsHostnameVerificationEnable", "true") == "true",
            verified=client.get("tlsAllowInsecureConnection", "false") != "true",
        )
        if text := problem_of(server, context if scheme == "https" else lambda: None, KEYS):
            return text
        try:
            Admin([url], self._described.client, tries=1).clusters()
        except RefusedError as refused:
            if refused.status in DENIED:
                return (
                    f"{url}: the broker refused the log-in: {refused.reason}; check the token of [client], whether it "
                    "has expired, and authPlugin"
                )
            return f"{url}: {refused}; check that admin-url is the web service of a Pulsar broker"
        except TargetError as error:
            return f"{url}: {error}"
        return ""

    def _learn(self, admin: Admin, back: Collection[str] = ()) -> None:
        """Learn which cluster this is and which brokers it has; brokers that are `back`, by address, are waited for.

        All are numbered anew: while a broker was away, the brokers after it had other numbers.
        """
        before = self._nodes

        def all_there() -> None:
            nodes = nodes_of(admin, self._described)
            if missing := sorted(set(back) - set(nodes.brokers.values())) if nodes.brokers else []:
                raise NotYet(f"it does not count the broker at {missing[0]}, which was brought back")
            self._nodes, self._brokers, self._cluster_id = nodes, nodes.brokers, nodes.id

        poll_until("the cluster was not whole", all_there, within_s=BACK_S, every_s=LOOK_AGAIN_S)
        if before is UNKNOWN or before.brokers != self._nodes.brokers:
            brokers = ", ".join(f"broker {number} at {at}" for number, at in self._brokers.items())
            self._note(f"cluster {self._nodes.name}: {brokers}" if brokers else f"note: {self._nodes.blind}")

    def _refuse_others(self, admin: Admin) -> None:
        refuse_others(admin, self._described, self._nodes)

    def _attach(self, admin: Admin) -> None:
        self._learn(admin, self._enter_clean(admin))
        self._seen(admin)
        trials = Trials(admin, self._described, self._run_id, self._manifest, self._note)
        self._trial = trials
        try:
            trials.check_permissions()
            self._refuse_sick(self._lacking_bookies())
        except BrokersFailedError as error:  # as where a broker that does not answer serves what is tried
            self._refuse_sick(str(error))
            self._note(f"note: {error}: the run goes on with --allow-unhealthy")
        self._config_digest = digest_of(settings_of(admin, self._nodes))
        self._admin = admin

    def _seen(self, admin: Admin) -> str:
        nodes = self._nodes
        refuse_another_number(self._described, nodes)
        self._version = admin.version()
        self._refuse_sick(self._unwell_in_time(lambda: unwell(admin, nodes)) or unhealthy(admin, nodes))
        if self._unhealthy_is_fine and (numbers := not_well(admin, nodes)):
            self._not_well = numbers
            words = "is not well: the run goes on with --allow-unhealthy, as long as no other is"
            self._note(f"note: {listed(nodes, sorted(numbers))} {words}")
        return f"{len(nodes.brokers) or 'an unknown number'}, Pulsar {self._version}"

    def _may_make_topics(self, admin: Admin) -> str:
        Trials(admin, self._described, self._run_id, self._manifest, self._note).may_see_the_tenant()
        return f"its log-in sees the namespaces of tenant {self._described.tenant}, as one must to make some"

    def _lacking_bookies(self) -> str:
        assert isinstance(self._trial, Trials)
        there = len(self._nodes.bookies)
        return self._trial.lacking_bookies(min(self._described.bookies or there, there))

    def _make(self, spec: ClusterSpec, manifest: Manifest) -> AttachedPulsar:
        assert self._admin is not None
        self._number += 1
        return AttachedPulsar(
            spec,
            self._described,
            manifest,
            admin=self._admin,
            nodes=self._nodes,
            namespace=self._described.namespace(self._run_id, self._number),
            lacking_bookies=self._lacking_bookies,
            not_well=self._not_well,
            **self._of_run(spec),
        )

    @property
    def measured(self) -> Mapping[int, str]:
        return self._nodes.measured

    def is_that_of(self, cluster_id: str) -> bool:
        try:
            admin = Admin(self._described.admin_urls[:1], self._described.client)
            return nodes_of(admin, self._described).id == cluster_id
        except TargetError:
            return False

    def _facts(self) -> Mapping[str, object]:
        nodes = self._nodes
        return {
            "system": "pulsar",
            "pulsar_version": self._version,
            "brokers": len(nodes.brokers) or self._described.brokers,
            "bookies": self._described.bookies or len(nodes.bookies),
            "durability": self._described.durability or "unknown",
        }

    def _lacks_nodes(self, scenario: Scenario) -> str | None:
        brokers = len(self._nodes.brokers) or self._described.brokers
        return lacks_nodes(scenario, brokers, self._described.bookies or len(self._nodes.bookies))

    def _not_permitted(self, scenario: Scenario) -> str | None:
        if self._nodes is not UNKNOWN and scenario.cluster.config and not self._nodes.each_answers:
            return OfCluster(NO_SETTINGS)
        reason = lacks_permission(scenario, self._described, broker_config_allowed=self._broker_config_allowed)
        return reason or beyond(self._described.limits, scenario)

    def _no_fault(self, scenario: FaultScenario) -> str | None:
        if reason := super()._no_fault(scenario):
            return reason
        numbered = not self._described.fault_brokers or self._described.brokers > 0
        return None if numbered or scenario.fault.about.harmless else UNNUMBERED

    @property
    def _blind(self) -> str:
        if self._nodes is UNKNOWN:
            return ""
        if self._nodes.blind:
            return BLIND
        return "" if self._nodes.each_answers else OUT_OF_REACH

    def _may_be_of_file(self, cluster_id: str) -> bool:
        return self._described.cluster_id in ("", name_in(cluster_id))

    def _at_start(self) -> list[str]:
        return sorted(self._nodes.brokers.values()) if self._admin else []

    def _there(self) -> list[str]:
        assert self._admin is not None
        return sorted(nodes_of(self._admin, self._described).brokers.values())

    def _plain(self, spec: ClusterSpec) -> ClusterSpec:
        """The spec without settings that real brokers' owners decide, such as whether bookies write through."""
        return replace(super()._plain(spec), bookies=0, bookie_config=())
