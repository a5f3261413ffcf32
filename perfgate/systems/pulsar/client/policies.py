"""Namespace policies as settings with plain names: their requests, and their values as Pulsar reports them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfgate.model import TopicSpec
from perfgate.model.delivery import DEDUPLICATION
from perfgate.model.errors import ConfigurationError
from perfgate.systems.pulsar.client.admin import Admin

ENSEMBLE = "ensemble"
"""In a topic's settings: number of bookies that hold its entries in turn; default: its write quorum."""
PERSISTENCE, RETENTION = "persistence", "retention"
RATE = MappingProxyType(
    {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A policy: the last part of its request's path, and its name in Pulsar's Policies.

    `fields`: the name of its field by a setting's name; empty where the policy is a value, and no object.
    `defaults` of its fields. `by_cluster`: reported by cluster, requested without a cluster.
    """

    endpoint: str
    reported: str
    fields: Mapping[str, str]
    defaults: Mapping[str, object] = field(default_factory=dict)
    by_cluster: bool = False
    method: str = "POST"


def _object(endpoint: str, reported: str, *names: str, **more: Any) -> Policy:
    return Policy(endpoint=endpoint, reported=reported, fields={name: name for name in names}, **more)


def _plain(endpoint: str, reported: str, name: str = "", **more: Any) -> Policy:
    return Policy(endpoint=endpoint, reported=reported, fields={name or endpoint: ""}, **more)


POLICIES = (
    Policy(
        endpoint=PERSISTENCE,
        reported=PERSISTENCE,
        fields={
            ENSEMBLE: "bookkeeperEnsemble",
            "write-quorum": "bookkeeperWriteQuorum",
            "ack-quorum": "bookkeeperAckQuorum",
            "managedLedgerMaxMarkDeleteRate": "managedLedgerMaxMarkDeleteRate",
        },
        defaults={"managedLedgerMaxMarkDeleteRate": 0.0},
    ),
    _object(RETENTION, "retention_policies", "retentionTimeInMinutes", "retentionSizeInMB"),
    _plain("messageTTL", "message_ttl_in_seconds", "messageTTLInSeconds"),
    _plain("deduplication", DEDUPLICATION, DEDUPLICATION),
    _plain("compactionThreshold", "compaction_threshold", method="PUT"),
    _plain("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer"),
    _plain("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription"),
    _object(
        "publishRate",
        "publishMaxMessageRate",
        "publishThrottlingRateInMsg",
        "publishThrottlingRateInByte",
        defaults={"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": -1},
        by_cluster=True,
    ),
    _object(
        "dispatchRate",
        "topicDispatchRate",
        "dispatchThrottlingRateInMsg",
        "dispatchThrottlingRateInByte",
        defaults=RATE,
        by_cluster=True,
    ),
    Policy(
        endpoint="subscriptionDispatchRate",
        reported="subscriptionDispatchRate",
        fields={
            "subscriptionDispatchThrottlingRateInMsg": "dispatchThrottlingRateInMsg",
            "subscriptionDispatchThrottlingRateInByte": "dispatchThrottlingRateInByte",
        },
        defaults=RATE,
        by_cluster=True,
    ),
)
KNOWN: Mapping[str, Policy] = MappingProxyType({name: policy for policy in POLICIES for name in policy.fields})
OF_A_TOPIC = tuple(name for name in KNOWN if name not in ("write-quorum", "ack-quorum"))
"""Settings that a scenario may state for its topic: a TopicSpec has fields for the others."""


def wanted(spec: TopicSpec) -> dict[str, object]:
    """A topic's policies as bodies by endpoint: its quorums, and those stated. Raises ConfigurationError."""
    stated: dict[str, str] = dict(spec.config)
    for name in stated:
        if name not in OF_A_TOPIC:
            raise ConfigurationError(f"topic.{name}: no policy of a Pulsar namespace; known: {', '.join(OF_A_TOPIC)}")
    write = str(spec.replication_factor)
    stated = {ENSEMBLE: write, **stated, "write-quorum": write, "ack-quorum": str(spec.acks)}
    return requests(stated.items())


def requests(stated: Iterable[tuple[str, str]]) -> dict[str, object]:
    """Bodies of requests that set these KNOWN settings, by endpoint. Raises ConfigurationError for a value."""
    bodies: dict[str, Any] = {}
    for name, text in stated:
        policy, value = KNOWN[name], _value(name, text)
        if not policy.fields[name]:
            bodies[policy.endpoint] = value
        else:
            body = bodies.setdefault(policy.endpoint, dict(policy.defaults))
            body[policy.fields[name]] = value
    stated_of_two = bodies.get(RETENTION, {})
    if lacking := [name for name in _policy(RETENTION).fields if stated_of_two and name not in stated_of_two]:
        raise ConfigurationError(f"{lacking[0]} is to be stated too: Pulsar takes retention's time and size together")
    return bodies


def now(policies: Mapping[str, Any], endpoint: str) -> object:
    """A policy's value as Pulsar reports it, in the form of its request; None: not set."""
    policy = _policy(endpoint)
    value = policies.get(policy.reported)
    if policy.by_cluster and value is not None:
        value = next(iter(value.values()), None)
    return value


def same(reported: object, body: object) -> bool:
    """Whether a reported policy is the requested policy: it may have further fields."""
    if isinstance(reported, dict) and isinstance(body, dict):
        return all(reported.get(name) == value for name, value in body.items())
    return reported == body


def put(admin: Admin, namespace: str, endpoint: str, body: object) -> None:
    """Set a policy; None removes it."""
    if body is None:
        admin.remove_policy(namespace, endpoint)
    else:
        admin.set_policy(namespace, endpoint, body, method=_policy(endpoint).method)


def _policy(endpoint: str) -> Policy:
    return next(policy for policy in POLICIES if policy.endpoint == endpoint)


def _value(name: str, text: str) -> object:
    try:
        value = json.loads(text.strip().lower())
    except ValueError:
        value = None
    if not isinstance(value, bool | int | float):
        raise ConfigurationError(f"topic.{name} = {text!r}: it must be a number, or true or false")
    if name == ENSEMBLE and (type(value) is not int or value < 1):
        raise ConfigurationError(f"topic.{name} = {text!r}: it must be a number of bookies")
    if isinstance(value, bool) is not (name == DEDUPLICATION):
        legal = "true or false" if name == DEDUPLICATION else "a number"
        raise ConfigurationError(f"topic.{name} = {text!r}: it must be {legal}")
    return value
