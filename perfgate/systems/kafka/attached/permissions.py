"""Permissions of this client for all that a run does with a topic, tried before anything is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.attached.journaled_topics import RETENTION_MS
from perfgate.systems.kafka.attached.manifest import Manifest
from perfgate.systems.kafka.client.topics import PREFIX, READY_TIMEOUT_S, REQUEST_TIMEOUT_S

TOPIC_ACTIONS: Mapping[AclOperation, str] = {
    AclOperation.DESCRIBE: "describe",
    AclOperation.WRITE: "write",
    AclOperation.READ: "read",
    AclOperation.DELETE: "delete",
}
DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
REPLICAS = (1, 3, -1)
"""How many the topic may have, the first that the brokers let it: as scenarios have them, and the brokers' default."""
OTHER_REPLICAS = (KafkaError.POLICY_VIOLATION, KafkaError.INVALID_REPLICATION_FACTOR)


def check_permissions(
    admin: AdminClient, name: str, manifest: Manifest, user: str, note: Callable[[str], None]
) -> None:
    """Make the topic `name` and delete it. Raises ConfigurationError with what `user` may not do.

    A topic that may be made but not deleted stays, empty: no request tells that of a topic that does not exist. Then
    the message names it. `note` is told of one that may stay because the trial ended early, as by Ctrl-C.
    """
    denied: list[str] = []
    prefix = f"{name.partition(PREFIX)[0]}{PREFIX}"
    manifest.plans(name)
    with _noting("create", denied):
        probe = _allowed(admin, name)
    stays = ""
    if denied:
        manifest.gone(name)
    else:
        try:
            with _noting("create", denied):
                _create(admin, probe)
                denied += [word for word in _denied(admin, name) if word != "delete"]
            stays = f"; topic {name} is empty and stays: delete it"
            with _noting("delete", denied):
                _delete(admin, name)
                stays = ""
        except BaseException:
            _delete_after_all(admin, name, manifest, note)
            raise
        manifest.gone(name)
    if denied:
        raise ConfigurationError(
            f"the brokers do not let {user} {', '.join(denied)} topics {prefix}*; grant it: kafka-acls --add "
            f"--allow-principal User:{user} --operation Create --operation Describe --operation Write --operation Read "
            f"--operation Delete --topic {prefix} --resource-pattern-type prefixed (docs/targets.md){stays}"
        )


def _allowed(admin: AdminClient, name: str) -> NewTopic:
    """Return the topic as the brokers would make it; a policy of theirs may ask for more replicas than one."""
    for replicas in REPLICAS:
        topic = NewTopic(
            name, num_partitions=1, replication_factor=replicas, config={"retention.ms": str(RETENTION_MS)}
        )
        try:
            admin.create_topics([topic], validate_only=True, request_timeout=REQUEST_TIMEOUT_S)[name].result()
        except KafkaException as error:
            if replicas == REPLICAS[-1] or error.args[0].code() not in OTHER_REPLICAS:
                raise
        else:
            return topic
    raise AssertionError("unreachable")


def _create(admin: AdminClient, topic: NewTopic) -> None:
    """Create it, unless it is there: Kafka 2.8 in KRaft mode does what it was only asked whether it would."""
    try:
        admin.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)[topic.topic].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _delete(admin: AdminClient, name: str) -> None:
    admin.delete_topics([name], request_timeout=REQUEST_TIMEOUT_S)[name].result()


def _delete_after_all(admin: AdminClient, name: str, manifest: Manifest, note: Callable[[str], None]) -> None:
    """Delete the topic of a trial that ended early; tell of it where that fails, or is interrupted too."""
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
    """Return what this client may not do with the topic that it has just made."""

    def described() -> list[str]:
        reply = admin.describe_topics(
            TopicCollection([name]), include_authorized_operations=True, request_timeout=REQUEST_TIMEOUT_S
        )[name]
        try:
            allowed = set(reply.result().authorized_operations or TOPIC_ACTIONS)
        except KafkaException as error:
            if error.args[0].code() in DENIED:
                return ["describe"]
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:  # not every broker has heard of it at once
                raise NotYet(error.args[0].str()) from error
            raise
        return [word for operation, word in TOPIC_ACTIONS.items() if operation not in allowed]

    failure = f"topic {name} was made, and the brokers did not describe it"
    return poll_until(failure, described, within_s=READY_TIMEOUT_S, every_s=0.1, error=ConfigurationError)
