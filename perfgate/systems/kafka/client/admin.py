"""Single requests to brokers about the cluster and its settings; each failure is a TargetError naming the attempt."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from perfgate.host.waiting import NotYet, poll_until
from perfgate.model import Settings
from perfgate.model.errors import ConfigurationError, TargetError
from perfgate.systems.kafka.client.topics import REQUEST_TIMEOUT_S, admin_client, answer, but_for, refusal_in

CONNECT_S = 5.0
TAKEN_WITHIN_S = 30.0
ASK_EVERY_S = 0.02
TAKING_S = 2.0
"""For this long a broker may report the old value with the source of the value that it is just taking (seen once in 60
runs that were interrupted, Kafka 4.3.1): another value than the run's is read again until then."""
ASKED_AT_MOST = 5
"""A broker that reduces its network threads closes the connections of those that end: a request that was on its way
there is sent again, up to this often."""
POOLS = re.compile(
    r"num\.io\.threads|(.+\.)?num\.network\.threads|num\.replica\.fetchers|num\.recovery\.threads\.per\.data\.dir"
    r"|background\.threads|log\.cleaner\.threads|remote\.log\.(reader\.threads|manager\..*thread\.pool\.size)"
)
"""Pools of threads: Kafka changes them to at least half and at most twice their size at a time (DynamicThreadPool,
SocketServer, LogCleaner, DynamicRemoteLogConfig)."""
TOO_FAR = re.compile(r"(?P<more>double)|half the current value")
"""Kafka's words for such a change that goes too far: up, or down."""
MOST_THREADS = 1024
"""A pool on its way to an unknown default is not made larger than this."""
REFUSALS = (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST)


def cluster_id_at(server: str, client: Settings) -> str:
    """Id of the cluster of this server (host:port); empty when there is no answer, or no client can be made."""
    try:
        return cluster_id_of(admin_client(server, client))
    except KafkaException:
        return ""


def cluster_id_of(admin: AdminClient) -> str:
    """Return the id of the client's cluster; empty when no broker answers within CONNECT_S."""
    try:
        reply = admin.describe_cluster(request_timeout=CONNECT_S)
        return str(answer(reply, "asking for the cluster").cluster_id or "")
    except (TargetError, KafkaException):
        return ""


def topic_ids(admin: AdminClient, names: Iterable[str]) -> dict[str, str]:
    names = list(names)
    if not names:
        return {}
    ids = {}
    for name, reply in admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S).items():
        with but_for(KafkaError.UNKNOWN_TOPIC_OR_PART):
            ids[name] = str(answer(reply, f"describing topic {name}").topic_id)
    return ids


def sees_all_topics(admin: AdminClient) -> bool:
    """Whether this client may describe topics of any name: brokers deny it even a topic that does not exist."""
    name = "kafka-perf-gate-may-i-see-this"
    reply = admin.describe_topics(TopicCollection([name]), request_timeout=REQUEST_TIMEOUT_S)[name]
    try:
        reply.result(timeout=REQUEST_TIMEOUT_S + 5)
    except KafkaException as error:
        return bool(error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED)
    return True


def version_of(admin: AdminClient, broker: int) -> str:
    """Return the brokers' Kafka line as far as they report it (until 3.9), else "unknown": state kafka-version then."""
    try:
        entry = broker_config(admin, str(broker)).get("inter.broker.protocol.version")
    except TargetError:
        return "unknown"
    return str(entry.value).partition("-")[0] if entry is not None and entry.value else "unknown"


def broker_config(admin: AdminClient, broker: str) -> Mapping[str, Any]:
    resource = ConfigResource(ResourceType.BROKER, broker)

    def ask() -> Future[Any]:
        return admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]

    config: Mapping[str, Any] = _answer(ask, f"reading the settings of broker {broker}")
    return config


def session_s(admin: AdminClient, broker: str) -> float:
    """Session of brokers before they are fenced, in s; 0 where this broker does not report it."""
    try:
        reported = broker_config(admin, broker)
    except TargetError:
        return 0.0
    set_to = {name: entry.value for name, entry in reported.items() if entry.value}
    name = "broker.session.timeout.ms" if "process.roles" in set_to else "zookeeper.session.timeout.ms"
    return float(set_to.get(name, 0)) / 1e3


def setting_of(described: Mapping[str, Any], broker: str, name: str) -> tuple[str | None, str]:
    """The dynamic value (None: none) and that in effect. Raises ConfigurationError for a value that is not reported."""
    entry = described.get(name)
    if entry is not None and entry.is_sensitive:
        raise ConfigurationError(
            f"{name} of broker {broker} is sensitive, so that the brokers do not tell its value: a run could "
            "not put it back, and does not change it"
        )
    value = "" if entry is None or entry.value is None else str(entry.value)
    is_own = entry is not None and entry.source == ConfigSource.DYNAMIC_BROKER_CONFIG.value
    return (value if is_own else None), value


def dynamic_value(admin: AdminClient, broker: str, name: str) -> str | None:
    return setting_of(broker_config(admin, broker), broker, name)[0]


def set_broker(
    admin: AdminClient,
    broker: str,
    name: str,
    value: str | None,
    effective: str = "",
    go_on: Callable[[], None] = lambda: None,
) -> None:
    """Set a dynamic setting of a broker; None removes it, so that what is `effective` then counts again.

    A pool of threads that refuses goes there in Kafka's steps. `go_on` is called before each, and raises to stop. A
    default may be another by now: the refusal says whether that is more or less. Raises ConfigurationError for a value
    that the broker refuses.
    """
    go_on()
    try:
        _alter(admin, broker, name, value)
    except TargetError as refusal:
        cause = refusal_in(refusal)
        if cause is None or cause.code() not in REFUSALS:
            raise
        words = cause.str()
        now = setting_of(broker_config(admin, broker), broker, name)[1]
        between: list[str] = []
        if POOLS.fullmatch(name):
            between = list(steps(now, effective if value is None else value))
            if value is None and (too_far := TOO_FAR.search(words)):
                between = list(steps(now, str(MOST_THREADS) if too_far["more"] else "1"))[:1]
        if not between:
            raise ConfigurationError(f"broker {broker} refuses {name} = {value}: {words}") from refusal
        for size in between:
            go_on()
            _alter(admin, broker, name, size)
            await_broker(admin, broker, {name: size})
        set_broker(admin, broker, name, value, effective, go_on)


def put_back_own(admin: AdminClient, broker: str, name: str, before: str | None, effective: str, value: str) -> str:
    """Put back a setting that a run has set to `value`, and wait until the broker reports it.

    Another client's value is left alone. Return a note where it was, or may have been another's. What takes effect is
    not compared: a default of the whole cluster may have been changed meanwhile. Raises as `set_broker`, TargetError.
    """

    def is_ours(reported: str | None) -> bool:
        return is_own(name, reported, before, effective, value)

    if not is_ours(now := value_now(admin, broker, name, is_ours)):
        somebody = "somebody has removed it" if now is None else f"somebody has set it to {now}"
        was = "not set" if before is None else before
        return f"left {name} of broker {broker} alone: {somebody} since it was set to {value}; before that it was {was}"
    set_broker(admin, broker, name, before, effective)

    def ask() -> None:
        if not same_value(reported := dynamic_value(admin, broker, name), before):
            raise NotYet(f"it still has {name} = {reported}")

    poll_until(f"broker {broker} did not put {name} back", ask, within_s=TAKEN_WITHIN_S, every_s=ASK_EVERY_S)
    return perhaps_own(broker, name, now, before, value)


def value_now(admin: AdminClient, broker: str, name: str, own: Callable[[str | None], bool]) -> str | None:
    """Return this broker's dynamic value: the run's `own`, or another that has lasted for TAKING_S."""
    ends = time.monotonic() + TAKING_S
    while not own(now := dynamic_value(admin, broker, name)) and time.monotonic() < ends:
        time.sleep(ASK_EVERY_S)
    return now


def steps(now: str, wanted: str) -> Iterator[str]:
    """Yield a pool's sizes between two, each at most twice and at least half its predecessor; none where not needed."""
    if not (now.isdecimal() and wanted.isdecimal() and int(now) > 0 and int(wanted) > 0):
        return
    size, end = int(now), int(wanted)
    while not size <= 2 * end <= 4 * size:
        size = 2 * size if end > size else (size + 1) // 2
        yield str(size)


def perhaps_own(broker: str, name: str, now: str | None, before: str | None, *values: str) -> str:
    """Note about a size that is overwritten; empty where the run set it last, or it was there before."""
    if any(same_value(now, known) for known in (before, *values)):
        return ""
    was = "not set" if before is None else before
    return (
        f"{name} of broker {broker} was {now}, a size on the way between {was} and {values[-1]}, and is overwritten: "
        "where somebody has set it since, set it again"
    )


def is_own(name: str, reported: str | None, before: str | None, effective: str, value: str) -> bool:
    """Whether a run that sets `value` may have set this dynamic value; else another client has since.

    `before`, `effective`: of `setting_of` before its first change. A broken-off run leaves a pool at any size.
    """
    sizes: set[str] = set()
    ahead = {effective, value} if POOLS.fullmatch(name) else set()
    while ahead:
        sizes |= ahead
        ahead = {size for begin in ahead for end in (effective, value) for size in steps(begin, end)} - sizes
    on_the_way = sizes - {effective, value}
    return any(same_value(reported, known) for known in (before, value, *on_the_way))


def await_broker(admin: AdminClient, broker: str, wanted: Mapping[str, str]) -> None:
    """Wait until a broker reports that these values, by name, take effect. Raises TargetError."""

    def ask() -> None:
        described = broker_config(admin, broker)
        for name, value in wanted.items():
            if not same_value(reported := setting_of(described, broker, name)[1], value):
                raise NotYet(f"it has {name} = {reported}")

    what = ", ".join(f"{name} = {value}" for name, value in wanted.items())
    poll_until(f"broker {broker} did not take {what}", ask, within_s=TAKEN_WITHIN_S, every_s=ASK_EVERY_S)


def same_value(reported: str | None, wanted: str | None) -> bool:
    """Whether two texts are the same value: 0.50 and 0.5, True and true, "a, b" and "a,b", but not "b,a"."""
    if reported is None or wanted is None:
        return reported is wanted
    try:
        return reported == wanted or float(reported) == float(wanted)
    except ValueError:
        first, second = ([part.strip() for part in text.lower().split(",")] for text in (reported, wanted))
        return first == second


def _alter(admin: AdminClient, broker: str, name: str, value: str | None) -> None:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=[entry])

    def ask() -> Future[Any]:
        return admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource]

    _answer(ask, f"setting {name} = {value} on broker {broker}")


def _answer(ask: Callable[[], Future[Any]], doing: str) -> Any:
    """Return the reply to a repeatable request, sent again where the connection broke. Raises TargetError."""
    for _ in range(ASKED_AT_MOST - 1):
        try:
            return answer(ask(), doing)
        except TargetError as error:
            cause = refusal_in(error)
            if cause is None or cause.code() != KafkaError._TRANSPORT:
                raise
        time.sleep(ASK_EVERY_S)
    return answer(ask(), doing)
