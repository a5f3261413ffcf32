"""Namespace policies as settings with plain names: which there are, their requests, and what Pulsar reports of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from perfgate.model import TopicSpec
from perfgate.model.errors import ConfigurationError
from perfgate.systems.pulsar.client.admin import Admin

ENSEMBLE = "ensemble"
"""In a topic's settings: how many bookies hold its entries in turn; else its write quorum."""
PERSISTENCE = "persistence"
RATE = MappingProxyType(
    {"dispatchThrottlingRateInMsg": -1, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 1}
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """One policy: the last part of its request's path, and where Pulsar's Policies have it.

    `fields`: the name of its field by a setting's name; empty where the policy is one value, and no object.
    `defaults`: the fields that are not stated. `by_cluster`: reported by cluster, stated without one.
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
    _object("retention", "retention_policies", "retentionTimeInMinutes", "retentionSizeInMB"),
    _plain("messageTTL", "message_ttl_in_seconds", "messageTTLInSeconds"),
    _plain("deduplication", "deduplicationEnabled", "deduplicationEnabled"),
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
"""Those that a scenario may state in its topic's settings: a TopicSpec has fields for the others."""


def wanted(spec: TopicSpec) -> dict[str, object]:
    """Return a topic's policies as requests have them, by endpoint: its quorums always, others where it states them.

    Raises ConfigurationError for a setting that is no policy, or whose value is none.
    """
    stated: dict[str, str] = dict(spec.config)
    for name in stated:
        if name not in OF_A_TOPIC:
            raise ConfigurationError(f"topic.{name}: no policy of a Pulsar namespace; known: {', '.join(OF_A_TOPIC)}")
    write = str(spec.replication_factor)
    stated = {ENSEMBLE: write, **stated, "write-quorum": write, "ack-quorum": str(spec.acks)}
    return requests(stated.items())


def requests(stated: Iterable[tuple[str, str]]) -> dict[str, object]:
    """Return the bodies that set these settings, all KNOWN, by endpoint. Raises ConfigurationError for a value."""
    bodies: dict[str, Any] = {}
    for name, text in stated:
        policy, value = KNOWN[name], _value(name, text)
        if not policy.fields[name]:
            bodies[policy.endpoint] = value
        else:
            body = bodies.setdefault(policy.endpoint, dict(policy.defaults))
            body[policy.fields[name]] = value
    for policy in POLICIES:
        body = bodies.get(policy.endpoint)
        if policy.endpoint == "retention" and isinstance(body, dict) and len(body) < len(policy.fields):
            lacking = next(field for field in policy.fields.values() if field not in body)
            raise ConfigurationError(f"{lacking} is to be stated too: Pulsar takes retention's time and size together")
    return bodies


def now(policies: Mapping[str, Any], endpoint: str) -> object:
    """Return what Pulsar reports of a policy, as its request has it; None: it is not set."""
    policy = _policy(endpoint)
    found = policies.get(policy.reported)
    if policy.by_cluster and found is not None:
        found = next(iter(found.values()), None)
    return found


def same(reported: object, body: object) -> bool:
    """Whether a reported policy is the one that was asked for: it may have fields that were not."""
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
    return value
