"""Topics of a run: created for a round with their quorums, counted, deleted after it.

Pulsar states quorums as policies of a namespace, and a partition takes them when its first ledger is opened. So topics
are in the run's own namespace, created one at a time, and their ledgers are read to check the quorums. The namespace's
other policies apply to every open topic in it, at any time: they are set anew for the topic that is to be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

from perfgate.host.waiting import NotYet, Ready, poll_until
from perfgate.model import TopicSpec
from perfgate.model.errors import BrokersFailedError, TargetError, TopicRefusedError
from perfgate.systems.pulsar.client import policies
from perfgate.systems.pulsar.client.admin import CONFLICT, PRECONDITION, Admin, TopicName
from perfgate.systems.pulsar.client.http import FailedRequestError, RefusedError

END = "kpg-end"
"""A subscription of each partition, without acknowledgements: it keeps the messages, and brokers count them by it."""
READY_TIMEOUT_S = 60.0
PLACED_WITHIN_S = 30.0
ASK_EVERY_S = 0.05
AT_A_TIME = 4
"""Number of partitions that are asked about at a time."""
MOST_PAGES = 10_000
BUNDLES = 512
"""Bundles of the run's namespace: of 25 partitions hardly two share a bundle. An empty bundle costs nothing."""
NOT_ENOUGH_BOOKIES = "NotEnoughBookies"
"""Code of a refusal for lack of bookies."""
TOO_FEW_BOOKIES = "Not enough non-faulty bookies"
"""Pulsar's message for an ensemble that needs more bookies than there are."""
REFUSALS = {400: "BadRequest", 403: "NotAllowed", CONFLICT: "Conflict", PRECONDITION: "Precondition"}
"""Codes of refusals, by their status of HTTP."""
_LATE = partial(BrokersFailedError, perhaps_late=True)


class Topics:
    """See :class:`perfgate.model.target.TopicKeeper`. Names: persistent://tenant/namespace/topic, one a round.

    A topic that is created, or reused, gets the policies that it states, and all others as they were before the first.
    """

    def __init__(
        self,
        check: Callable[[], None],
        admin: Admin,
        brokers: Callable[[], Mapping[str, int]],
        place: Callable[[TopicName, int], None] = lambda *_: None,
    ) -> None:
        """`check` raises TargetError when a broker is gone; it is called while something is waited for.

        `brokers`: ids by host:port; `place` chooses the brokers of a new topic's partitions, by their number.
        """
        self._check, self._admin, self._brokers, self._place = check, admin, brokers, place
        self._before: dict[str, dict[str, object]] = {}
        """Policies before the first change, by namespace and endpoint; None: not set. They are kept: no policy of a
        topic that was not deleted, whatever failed, may stay for later topics."""

    def create(self, name: str, spec: TopicSpec, progress: Callable[[str], None] = lambda _: None) -> None:
        """Create the topic with its policies; wait until each partition has an owner, an open ledger with the topic's
        quorums, and the subscription END.

        Raises TopicRefusedError with the brokers' own reason when they refuse, and leaves nothing of it then;
        BrokersFailedError when none answers, ConfigurationError for a setting that is no policy.
        """
        topic, created = TopicName.of(name), False
        wanted = policies.wanted(spec)
        try:
            self._set_policies(topic.namespace, wanted)
            self._admin.create_topic(topic, spec.partitions)
            created = True
            self._place(topic, spec.partitions)
            for number in range(spec.partitions):
                self._open(topic.partition(number))
            for number in range(spec.partitions):
                self._require_quorums(topic.partition(number), wanted[policies.PERSISTENCE])
        except (RefusedError, FailedRequestError) as error:
            self._check()
            if code := _refusal(error):
                with suppress(TargetError):  # the refusal is reported, and `exists` shows a topic that stays
                    if created:  # else a topic of this name is another's
                        self._admin.delete_topic(topic)
                    self._set_policies(topic.namespace, {})
                raise TopicRefusedError(f"creating topic {name} ({spec}): {error}", code) from error
            raise

    def reuse(self, name: str, spec: TopicSpec) -> None:
        self._set_policies(TopicName.of(name).namespace, policies.wanted(spec))

    def exists(self, name: str) -> bool:
        return self._admin.partitions(TopicName.of(name)) > 0

    def end_offsets(self, name: str, partitions: int, count: int = 1) -> tuple[int, ...]:
        """Number of messages that each partition has taken since it was created.

        The broker's own counter where that is whole; else, after the loss of a broker or the end of a ledger, the
        broker reads the entries back through the subscription END. Both are exact. Raises TargetError where that
        subscription is not there, or no longer at the beginning.
        """
        topic = TopicName.of(name)

        def of(number: int) -> int:
            ask = partial(self._end_of, topic.partition(number))
            return self._poll(f"the end of partition {number} of {name} could not be read", ask)

        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return tuple(pool.map(of, range(partitions)))

    def leaders(self, name: str, count: int = 1) -> tuple[int, ...]:
        topic, known = TopicName.of(name), self._brokers()
        return tuple(
            owner_of(self._admin, topic.partition(number), known) for number in range(self._admin.partitions(topic))
        )

    def delete(self, name: str, count: int = 1, progress: Callable[[str], None] = lambda _: None) -> None:
        """Delete the topic, if it exists, with its subscriptions; restore its namespace's policies."""
        topic = TopicName.of(name)
        self._admin.delete_topic(topic)
        self._set_policies(topic.namespace, {})

    def _set_policies(self, namespace: str, wanted: Mapping[str, object]) -> None:
        """Set these policies, and put all others back that were ever set here."""
        before = self._before.setdefault(namespace, {})
        if not (before or wanted):
            return
        reported = self._admin.policies(namespace)
        for endpoint, body in {**before, **wanted}.items():
            value = policies.now(reported, endpoint)
            if not policies.same(value, body):
                before.setdefault(endpoint, value)
                policies.put(self._admin, namespace, endpoint, body)

    def _open(self, partition: TopicName) -> None:
        """Have a broker load the partition, which opens its ledger; asked again while its bundle moves."""

        def ask() -> None:
            with _unless_refused():
                self._admin.subscribe(partition, END)

        self._poll(f"partition {partition} was not opened", ask)

    def _require_quorums(self, partition: TopicName, body: object) -> None:
        """Make sure of the ledger's quorums: a broker that lacked the policy has to open another ledger."""
        assert isinstance(body, dict)
        wanted = (body["bookkeeperEnsemble"], body["bookkeeperWriteQuorum"], body["bookkeeperAckQuorum"])

        def ask() -> None:
            with _unless_refused():
                ledgers = self._admin.ledgers(partition)
            if not ledgers:
                raise NotYet("it has no ledger")
            if (quorums := ledgers[-1].quorums) != wanted:
                self._admin.delete_loose_topic(partition)
                self._open(partition)
                raise NotYet(f"its ledger has ensemble, write and ack quorum {quorums}, not {wanted}")

        self._poll(f"partition {partition} was not opened as asked for", ask)

    def _poll(self, failure: str, ask: Callable[[], Ready]) -> Ready:
        return poll_until(failure, ask, within_s=READY_TIMEOUT_S, every_s=ASK_EVERY_S, check=self._check, error=_LATE)

    def _end_of(self, partition: TopicName) -> int:
        try:
            stats, internal = self._admin.stats(partition), self._admin.internal_stats(partition)
            if pending := int(internal.get("pendingAddEntriesCount", 0)):
                raise NotYet(f"{pending} entries are being added")
            counted = int(stats["msgInCounter"])
            return counted if counter_is_whole(stats, internal) else self._read_back(partition, internal)
        except (RefusedError, FailedRequestError) as error:
            raise NotYet(str(error)) from error

    def _read_back(self, partition: TopicName, internal: Mapping[str, object]) -> int:
        """Number of messages of all entries, read by the broker page by page through the subscription END."""
        total = int(str(internal["numberOfEntries"]))
        messages, entries, start = 0, 0, None
        for _ in range(MOST_PAGES):
            page = self._admin.analyzed(partition, END, start)
            messages, entries = messages + int(page["messages"]), entries + int(page["entries"])
            if not page.get("aborted"):
                break
            if not page.get("lastMessageId") or not int(page["entries"]):
                raise NotYet("the broker read nothing within its limits (subscriptionBacklogScanMaxTimeMs)")
            ledger, entry = str(page["lastMessageId"]).split(":")[:2]
            start = (int(ledger), int(entry) + 1)
        if entries != total:
            raise NotYet(
                f"{entries} entries were read through subscription {END}, and {total} are in the ledgers: it is not at "
                "the beginning, or messages are still being added"
            )
        return messages


def counter_is_whole(stats: Mapping[str, object], internal: Mapping[str, object]) -> bool:
    """Whether a partition's counter of messages has counted each of its entries once.

    It starts at 0 with each loading, and also counts messages that deduplication drops or that are submitted again.
    """
    ledgers = internal.get("ledgers")
    return (
        isinstance(ledgers, list)
        and len(ledgers) == 1
        and internal.get("entriesAddedCounter") == internal.get("numberOfEntries")
        and stats.get("deduplicationStatus", "Disabled") == "Disabled"
    )


def owner_of(admin: Admin, partition: TopicName, brokers: Mapping[str, int]) -> int:
    """Id of the broker that serves a partition; -1: none does, or an unknown broker."""
    try:
        addresses = admin.owner(partition).values()
    except (RefusedError, FailedRequestError):
        return -1
    ids = (brokers.get(address.partition("://")[2].rstrip("/"), -1) for address in addresses)
    return next((broker for broker in ids if broker >= 0), -1)


def _refusal(error: RefusedError | FailedRequestError) -> str:
    return NOT_ENOUGH_BOOKIES if TOO_FEW_BOOKIES in error.reason else REFUSALS.get(error.status, "")


@contextmanager
def _unless_refused() -> Iterator[None]:
    """Turn a broker's answer while a bundle moves into NotYet; refusals pass."""
    try:
        yield
    except (RefusedError, FailedRequestError) as error:
        if _refusal(error):
            raise
        raise NotYet(str(error)) from error


def place(
    admin: Admin,
    topic: TopicName,
    partitions: int,
    *,
    names: Mapping[int, str],
    brokers: Mapping[str, int],
    check: Callable[[], None],
) -> None:
    """Assign the partitions to the brokers in turn, as Kafka places leaders, before any is loaded.

    Pulsar assigns bundles by the hash of a partition's name: of six partitions a single broker served four or five in
    three rounds of four, so that a rate depended on the topic's name. `names` that brokers registered, by id;
    `brokers`: ids by all their addresses. Raises TargetError where a broker does not take a bundle.
    """
    ids, placed = sorted(names), set[str]()
    for number in range(partitions):
        partition, broker = topic.partition(number), ids[number % len(ids)]
        bundle = admin.bundle(partition)
        if bundle in placed:
            continue
        placed.add(bundle)

        def ask(partition: TopicName = partition, broker: int = broker, bundle: str = bundle) -> None:
            if (owner := owner_of(admin, partition, brokers)) != broker:
                admin.unload_bundle(topic.namespace, bundle, names[broker])
                raise NotYet(f"broker {owner} has it")

        admin.unload_bundle(topic.namespace, bundle, names[broker])
        failure = f"partition {partition} was not given to broker {broker}"
        poll_until(failure, ask, within_s=PLACED_WITHIN_S, every_s=ASK_EVERY_S, check=check)
