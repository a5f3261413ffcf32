"""Trials on real brokers at the start: permissions for all that a run does with a topic, and topics as declared.

A policy of the brokers' may refuse a number of replicas or a setting, and some brokers take a setting and ignore it: a
scenario about just that would be invalid in every run, or would not measure what it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, ConfigResource, NewTopic, ResourceType

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import TopicSpec, settings
from perfgate.model.errors import ConfigurationError
from perfgate.model.pages import page
from perfgate.model.target import OfCluster
from perfgate.systems.attached.manifest import Manifest
from perfgate.systems.kafka.attached.cluster import RETENTION_MS
from perfgate.systems.kafka.client.admin import same_value
from perfgate.systems.kafka.client.topics import PREFIX, READY_TIMEOUT_S, REQUEST_TIMEOUT_S, new_topic

REFUSALS = (
    KafkaError.POLICY_VIOLATION,
    KafkaError.INVALID_CONFIG,
    KafkaError.INVALID_PARTITIONS,
    KafkaError.INVALID_REQUEST,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
)
"""Answers of healthy brokers to a topic that they are not to have. Too few replicas is none: a broker may be away, and
the size of the cluster is checked separately."""
NOT_THERE_YET = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
TOPIC_ACTIONS: Mapping[AclOperation, str] = {
    AclOperation.DESCRIBE: "describe",
    AclOperation.WRITE: "write",
    AclOperation.READ: "read",
    AclOperation.DELETE: "delete",
}
DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
REPLICAS = (1, 3, -1)
"""Of the topic, the first that the brokers let it: as scenarios have them, and the brokers' default."""
OTHER_REPLICAS = (KafkaError.POLICY_VIOLATION, KafkaError.INVALID_REPLICATION_FACTOR)


class TopicTrial:
    """See :class:`perfgate.systems.attached.target.Trial`."""

    def __init__(
        self, admin: AdminClient, name: str, manifest: Callable[[], Manifest], note: Callable[[str], None]
    ) -> None:
        """`name`: prefix of each topic that is made for a trial, noted in a `manifest`."""
        self._admin, self._name, self._manifest, self._note = admin, name, manifest, note
        self._refusals: dict[TopicSpec, OfCluster | None] = {}
        self._trials, self._blind = 0, False

    def refusal(self, topic: TopicSpec) -> OfCluster | None:
        if topic not in self._refusals:
            self._refusals[topic] = self._refused(topic) or (self._ignored(topic) if topic.config else None)
        return self._refusals[topic]

    def _refused(self, topic: TopicSpec) -> OfCluster | None:
        """Ask for the topic without having it made. Other failures a run meets too, and then reports."""
        name, refusal = f"{self._name}-0", None
        with closing(self._manifest()) as manifest:
            manifest.plans(name)
            try:
                _ask(self._admin, _new(name, topic), validate_only=True)
                self._delete(name)  # brokers may create what is only to be validated (2.8 with KRaft)
            except KafkaException as error:
                if error.args[0].code() in REFUSALS:
                    refusal = OfCluster(f"the brokers refuse its topic: {error.args[0].str()}")
            manifest.gone(name)
        return refusal

    def _ignored(self, topic: TopicSpec) -> OfCluster | None:
        """Create a topic with these settings, of a single partition, and return which of them are not in force."""
        self._trials += 1
        name = f"{self._name}-{self._trials}"
        with closing(self._manifest()) as manifest:
            manifest.plans(name)
            try:
                _ask(self._admin, _new(name, replace(topic, partitions=1)))
                in_force = self._in_force(name)
            except KafkaException:
                return None  # with all its partitions the topic was not refused
            finally:
                self._delete(name)  # an answer that got lost may have made it
                manifest.gone(name)
        wrong = {
            key: in_force.get(key)
            for key, value in topic.config
            if in_force and not same_value(in_force.get(key), value)
        }
        if not wrong:
            return None
        words = ", ".join(f"{key} = {dict(topic.config)[key]} (is {now})" for key, now in wrong.items())
        return OfCluster(f"the brokers take settings of its topic and do not have them in force: {words}")

    def _in_force(self, name: str) -> Mapping[str, str]:
        resource = ConfigResource(ResourceType.TOPIC, name)

        def described() -> Mapping[str, str]:
            reply = self._admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]
            try:
                return {key: str(entry.value) for key, entry in reply.result().items()}
            except KafkaException as error:
                if error.args[0].code() in NOT_THERE_YET:  # not every broker knows it at once
                    raise NotYet(error.args[0].str()) from error
                if not self._blind:
                    self._note(
                        f"note: whether settings of topics are in force cannot be told ({error.args[0].str()}): grant "
                        "DescribeConfigs on the run's topics"
                    )
                self._blind = True
                return {}

        failure = f"topic {name} was made, and the brokers did not describe it"
        return poll_until(failure, described, within_s=READY_TIMEOUT_S, every_s=0.1, error=ConfigurationError)

    def _delete(self, name: str) -> None:
        def gone() -> None:
            try:
                _delete(self._admin, name)
            except KafkaException as error:
                if error.args[0].code() not in NOT_THERE_YET:  # it is gone, or was never made
                    raise NotYet(error.args[0].str()) from error

        failure = f"topic {name}, made to try its settings, could not be deleted"
        poll_until(failure, gone, within_s=READY_TIMEOUT_S, every_s=0.5, error=ConfigurationError)


def _ask(admin: AdminClient, topic: NewTopic, *, validate_only: bool = False) -> None:
    replies = admin.create_topics([topic], validate_only=validate_only, request_timeout=REQUEST_TIMEOUT_S)
    replies[topic.topic].result()


def _new(name: str, topic: TopicSpec) -> NewTopic:
    return new_topic(name, replace(topic, config=settings({"retention.ms": RETENTION_MS, **dict(topic.config)})))


def check_permissions(
    admin: AdminClient, name: str, manifest: Manifest, user: str, note: Callable[[str], None]
) -> None:
    """Make the topic `name` and delete it. Raises ConfigurationError with what `user` may not do.

    A topic that may be made but not deleted stays, empty, and the message names it: permission to delete cannot be
    asked of a topic that does not exist. `note` reports a topic that may stay when the trial ends early, as by Ctrl-C.
    """
    denied: list[str] = []
    manifest.plans(name)
    with _noting("create", denied):
        probe = _allowed(admin, name)
    stays = ""
    if denied:
        manifest.gone(name)
    else:
        try:
            with _noting("create", denied):
                with _but_for(KafkaError.TOPIC_ALREADY_EXISTS):
                    _ask(admin, probe)
                denied += [word for word in _denied(admin, name) if word != "delete"]
            stays = f"; topic {name} is empty and stays: delete it"
            with _noting("delete", denied):
                _delete(admin, name)
                stays = ""
        except BaseException:
            _delete_after_all(admin, name, manifest, note)
            raise
        manifest.gone(name)
    _refuse(denied, name, user, stays)


def may_make(admin: AdminClient, name: str, user: str) -> None:
    """Ask for the topic `name` without having it made. Raises ConfigurationError with what `user` may not do."""
    denied: list[str] = []
    with _noting("create", denied):
        _allowed(admin, name)
    if not denied:
        with _noting("delete", denied), _but_for(*NOT_THERE_YET):
            _delete(admin, name)  # Kafka 2.8 in KRaft mode creates what was only to be validated
    _refuse(denied, name, user)


def _refuse(denied: Sequence[str], name: str, user: str, stays: str = "") -> None:
    prefix = f"{name.partition(PREFIX)[0]}{PREFIX}"
    if denied:
        raise ConfigurationError(
            f"the brokers do not let {user} {', '.join(denied)} topics {prefix}*; grant it: kafka-acls --add "
            f"--allow-principal User:{user} --operation Create --operation Describe --operation Write --operation Read "
            f"--operation Delete --topic {prefix} --resource-pattern-type prefixed ({page('targets-security')}){stays}"
        )


def _allowed(admin: AdminClient, name: str) -> NewTopic:
    """Return the topic as the brokers would create it; a policy of theirs may ask for several replicas."""
    for replicas in REPLICAS:
        topic = NewTopic(
            name, num_partitions=1, replication_factor=replicas, config={"retention.ms": str(RETENTION_MS)}
        )
        try:
            _ask(admin, topic, validate_only=True)
        except KafkaException as error:
            if replicas == REPLICAS[-1] or error.args[0].code() not in OTHER_REPLICAS:
                raise
        else:
            return topic
    raise AssertionError("unreachable")


@contextmanager
def _but_for(*codes: int) -> Iterator[None]:
    """Let the block end quietly when it fails because of these answers of the brokers."""
    try:
        yield
    except KafkaException as error:
        if error.args[0].code() not in codes:
            raise


def _delete(admin: AdminClient, name: str) -> None:
    admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)[name].result()


def _delete_after_all(admin: AdminClient, name: str, manifest: Manifest, note: Callable[[str], None]) -> None:
    """Delete the topic of a trial that ended early; report it where that fails, or is interrupted too."""
    try:
        _delete(admin, name)
        manifest.gone(name)
    except BaseException as error:  # whatever it is, what ended the trial is raised
        # Where there is no such topic it is deleted, or still to be made: then the next start finds it noted.
        if not (isinstance(error, KafkaException) and error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
            with suppress(OSError):  # the terminal may be gone
                note(f"topic {name} is empty and may stay until the next start, which deletes it: {error!r}")


@contextmanager
def _noting(action: str, denied: list[str]) -> Iterator[None]:
    """Note the action when the brokers deny it; make any other failure an error."""
    try:
        yield
    except KafkaException as error:
        if error.args[0].code() in DENIED:
            denied.append(action)
        else:
            raise ConfigurationError(f"trying to {action} a topic: {error.args[0].str()}") from None


def _denied(admin: AdminClient, name: str) -> list[str]:
    """Actions that this client may not do with the topic that it has just made."""

    def described() -> list[str]:
        reply = admin.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
        )[name]
        try:
            allowed = set(reply.result().authorized_operations or TOPIC_ACTIONS)
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                return ["describe"]
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:  # not every broker knows it at once
                raise NotYet(error.args[0].str()) from error
            raise
        return [word for operation, word in TOPIC_ACTIONS.items() if operation not in allowed]

    failure = f"topic {name} was made, and the brokers did not describe it"
    return poll_until(failure, described, within_s=READY_TIMEOUT_S, every_s=0.1, error=ConfigurationError)
