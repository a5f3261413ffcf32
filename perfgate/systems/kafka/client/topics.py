"""Topics of a run: created fresh for a round, deleted after it, and their end offsets read in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec, TopicMetadata

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import SAME_ZONE, Settings, TopicSpec
from perfgate.model.declared import topic_names
from perfgate.model.errors import BrokersFailedError, TargetError, TopicRefusedError
from perfgate.model.secret import revealed
from perfgate.model.target import PREFIX as PREFIX
from perfgate.model.target import Reachable
from perfgate.systems.kafka.client.iam import with_tokens

REQUEST_TIMEOUT_S = 20
READY_TIMEOUT_S = 60
AT_A_TIME = 100
"""Topics of a request. Each batch has the bounds of a lone topic, so that 1,000 take ten times as long at most."""
LEADER_MOVING = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._NOENT,
}


def admin_client(bootstrap: str, security: Settings) -> AdminClient:
    """Return an admin client that logs nothing about brokers which come and go."""
    # The backoff's default maximum of 10 s would hide a starting broker for that long.
    quick = {"reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "200"}
    fixed = {"bootstrap.servers": bootstrap, "log_level": "0", "allow.auto.create.topics": "false"}
    return AdminClient(with_tokens({**fixed, **quick, **revealed(security)}))


def refusal_in(error: BaseException | None) -> KafkaError | None:
    """The error of librdkafka or the brokers that caused `error`; None where something else did."""
    cause = error.__cause__ if error else None
    return cause.args[0] if isinstance(cause, KafkaException) else None


@contextmanager
def but_for(*codes: int) -> Iterator[None]:
    """Let the block end quietly when it fails because of these answers of the brokers."""
    try:
        yield
    except TargetError as error:
        refusal = refusal_in(error)
        if refusal is None or refusal.code() not in codes:
            raise


UNANSWERED = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.NETWORK_EXCEPTION,
}


def is_answer(error: BaseException | None) -> bool:
    """Whether the error is the brokers' own refusal, and not a missing answer."""
    refusal = refusal_in(error)
    return refusal is not None and refusal.code() not in UNANSWERED


def failure_of(error: KafkaException | TimeoutError, doing: str, *, asked: bool = False) -> TargetError:
    """Failure of a request: BrokersFailedError without an answer, and for an error of a request that only `asked`."""
    code = error.args[0].code() if isinstance(error, KafkaException) else KafkaError._TIMED_OUT
    if code in UNANSWERED:
        return BrokersFailedError(f"{doing}: {error}", perhaps_late=True)
    own = asked and code > 0 and not error.args[0].name().endswith(("AUTHORIZATION_FAILED", "AUTHENTICATION_FAILED"))
    return (BrokersFailedError if own else TargetError)(f"{doing}: {error}")


def assignment(spec: TopicSpec) -> list[list[int]]:
    """Each partition's replicas on the first brokers, which lead in turn."""
    return [
        [(partition + n) % spec.on_brokers + 1 for n in range(spec.replication_factor)]
        for partition in range(spec.partitions)
    ]


def new_topic(name: str, spec: TopicSpec) -> NewTopic:
    replicas: dict[str, Any] = {"replication_factor": spec.replication_factor}
    if spec.on_brokers:
        replicas = {"replica_assignment": assignment(spec)}
    return NewTopic(name, num_partitions=spec.partitions, config=dict(spec.config), **replicas)


def answer(reply: Future[Any], doing: str) -> Any:
    try:
        return reply.result(timeout=REQUEST_TIMEOUT_S + 5)
    except (KafkaException, TimeoutError) as error:
        raise failure_of(error, doing) from error


def _batches(names: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield AT_A_TIME names at a time, each batch with how many came before it."""
    return ((at, names[at : at + AT_A_TIME]) for at in range(0, len(names), AT_A_TIME))


_LATE = partial(BrokersFailedError, perhaps_late=True)


class Topics:
    def __init__(self, cluster: Reachable) -> None:
        self._cluster = cluster
        self._admin = self._new_client()

    def create(self, name: str, spec: TopicSpec, progress: Callable[[str], None] = lambda _: None) -> None:
        """See the protocol: until each partition has a leader and all replicas in sync.

        Raises TopicRefusedError with the broker's words, and no topic stays; BrokersFailedError without an answer.
        """
        names, created = topic_names(name, spec.count), list[str]()
        for at, batch in _batches(names):
            if len(names) > 1:
                progress(f"creating its topics, {at:,} of {len(names):,}")
            try:
                self._create(batch, spec, created)
            except TopicRefusedError:
                self._delete(created)
                raise
        self.end_offsets(name, spec.partitions, spec.count)

    def _create(self, names: Sequence[str], spec: TopicSpec, created: list[str]) -> None:
        """Create these topics, of which those that the brokers have made are added to `made`."""
        done = self._admin.create_topics([new_topic(name, spec) for name in names], request_timeout=REQUEST_TIMEOUT_S)
        failures = []
        for name in names:
            try:
                answer(done[name], f"creating topic {name} ({spec})")
            except TargetError as error:
                failures.append(error)
            else:
                created.append(name)
        if failures:
            # An answer that got lost may have made its topic: that failure decides.
            failure = next((error for error in failures if not is_answer(error)), failures[0])
            self._cluster.check()
            refusal = refusal_in(failure)
            if refusal is None or not is_answer(failure):
                raise failure
            raise TopicRefusedError(str(failure), refusal.name()) from failure
        failed = f"topic {names[0]}: not every partition had a leader and {spec.replication_factor} in-sync replicas"
        ask = partial(self._require_in_sync, names, spec)
        poll_until(failed, ask, within_s=READY_TIMEOUT_S, every_s=0.05, check=self._cluster.check, error=_LATE)

    def reuse(self, name: str, spec: TopicSpec) -> None:
        """Do nothing: each topic has its settings to itself."""

    def exists(self, name: str) -> bool:
        try:
            return name in self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        except KafkaException as error:
            raise failure_of(error, "listing the topics", asked=True) from error

    def end_offsets(self, name: str, partitions: int, count: int = 1) -> tuple[int, ...]:
        """See the protocol. A broker that does not know yet that it leads is asked again, within READY_TIMEOUT_S."""
        wanted = {
            TopicPartition(topic, number): OffsetSpec.latest()
            for topic in topic_names(name, count)
            for number in range(partitions)
        }

        def ends() -> tuple[int, ...]:
            replies = self._admin.list_offsets(wanted, request_timeout=REQUEST_TIMEOUT_S)
            try:
                return tuple(reply.result(timeout=REQUEST_TIMEOUT_S + 5).offset for reply in replies.values())
            except (KafkaException, TimeoutError) as error:
                if error.args and error.args[0].code() not in LEADER_MOVING:
                    raise failure_of(error, f"reading the end offsets of {name}", asked=True) from error
                # Once librdkafka has cached a new topic as leaderless, the same client reports that for ever
                # (1 topic in 17 on 2.16.0); a new client asks the brokers.
                self._admin = self._new_client()
                raise NotYet(str(error)) from error

        failure = f"the end offsets of {name} could not be read"
        return poll_until(failure, ends, within_s=READY_TIMEOUT_S, every_s=0.05, check=self._cluster.check, error=_LATE)

    def leaders(self, name: str, count: int = 1) -> tuple[int, ...]:
        names = topic_names(name, count)
        topics = self._described(names)
        if missing := [topic for topic in names if topic not in topics]:
            raise TargetError(f"asking for topic {missing[0]}: the brokers do not know it")
        by_topic = (topics[topic].partitions for topic in names)
        return tuple(partitions[number].leader for partitions in by_topic for number in sorted(partitions))

    def delete(self, name: str, count: int = 1, progress: Callable[[str], None] = lambda _: None) -> None:
        names = topic_names(name, count)
        for at, batch in _batches(names):
            if count > 1:
                progress(f"deleting its topics, {at:,} of {count:,}")
            self._delete(batch)
        listed = answer(self._admin.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S), "listing groups")
        groups = [group.group_id for group in listed.valid if group.group_id.startswith(name)]
        if groups:
            for group, reply in self._admin.delete_consumer_groups(groups).items():
                # A member that was killed holds its group until its session ends; a group without offsets, as it
                # then is, the brokers remove themselves.
                with but_for(KafkaError.NON_EMPTY_GROUP, KafkaError.GROUP_ID_NOT_FOUND):
                    answer(reply, f"deleting consumer group {group}")

    def _delete(self, names: Sequence[str]) -> None:
        if not names:
            return
        replies: Mapping[str, Future[Any]] = self._admin.delete_topics(list(names), request_timeout=REQUEST_TIMEOUT_S)
        for name in names:
            with but_for(KafkaError.UNKNOWN_TOPIC_OR_PART):  # it is gone already
                answer(replies[name], f"deleting topic {name}")

    def _require_in_sync(self, names: Sequence[str], spec: TopicSpec) -> None:
        topics = self._described(names)
        for topic in (topics.get(name) for name in names):
            if topic is None:
                raise NotYet("not every topic is known")
            in_sync = [p for p in topic.partitions.values() if p.leader >= 0 and len(p.isrs) == spec.replication_factor]
            if topic.error is not None or not len(in_sync) == len(topic.partitions) == spec.partitions:
                raise NotYet(topic.error or f"{len(in_sync)} of {spec.partitions} have")

    def _described(self, names: Sequence[str]) -> Mapping[str, TopicMetadata]:
        """Metadata of a lone topic; where several are named, of all that there are."""
        only = names[0] if len(names) == 1 else None
        try:
            topics: Mapping[str, TopicMetadata] = self._admin.list_topics(only, timeout=REQUEST_TIMEOUT_S).topics
        except KafkaException as error:
            raise failure_of(error, f"asking for topic {names[0]}", asked=True) from error
        return topics

    def _new_client(self) -> AdminClient:
        return admin_client(self._cluster.bootstrap(SAME_ZONE), self._cluster.client_settings())
