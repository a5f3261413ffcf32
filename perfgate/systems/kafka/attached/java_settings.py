"""Table of every setting of Kafka's Java clients and its treatment in a target file, for the code and for docs.

Sources: the clients' configuration references (kafka.apache.org/documentation, 4.3), librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Treatment(enum.Enum):
    TRANSLATED = "translated"
    SCENARIO = "left out: each scenario states it"
    IGNORED = "left out"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of the Java clients. `words`: librdkafka's name, or why it is left out or refused."""

    treatment: Treatment
    words: str = ""


_SAME_NAME = """
    bootstrap.servers client.dns.lookup client.id client.rack connections.max.idle.ms enable.metrics.push
    metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy reconnect.backoff.max.ms
    reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms sasl.kerberos.service.name
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.scope sasl.oauthbearer.token.endpoint.url
    security.protocol socket.connection.setup.timeout.ms ssl.cipher.suites
"""
SAME_NAME = _SAME_NAME.split()
RENAMED = {
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "sasl.mechanism": "sasl.mechanisms",
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
STORES = {f"ssl.{store}.{part}" for store in ("truststore", "keystore") for part in ("location", "password", "type")}
"""Files in Java's own formats, and PEM."""
CONVERTED = {
    "request.timeout.ms": "socket.timeout.ms (10 to 300,000), and of producers request.timeout.ms too",
    "sasl.client.callback.handler.class": "sasl.mechanisms = AWS_MSK_IAM, of that vendor's handler; others are refused",
    "sasl.jaas.config": "sasl.username and sasl.password, or sasl.oauthbearer.*, by the login module",
    "sasl.login.callback.handler.class": (
        "sasl.oauthbearer.method = oidc, of Kafka's own handler; AWS_MSK_IAM, of that vendor's; others are refused"
    ),
    "ssl.endpoint.identification.algorithm": "the same name; empty, which switches the check off, becomes none",
    "ssl.key.password": "ssl.key.password, or the converted store's",
    **{name: "ssl.ca.location or ssl.keystore.location; JKS is converted" for name in STORES},
}
OF_SCENARIOS = """
    acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size buffer.memory check.crcs
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level default.api.timeout.ms
    delivery.timeout.ms enable.auto.commit enable.idempotence exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
    fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
    interceptor.classes isolation.level key.deserializer key.serializer linger.ms max.block.ms
    max.in.flight.requests.per.connection max.partition.fetch.bytes max.poll.interval.ms max.poll.records
    max.request.size metadata.max.idle.ms partition.assignment.strategy partitioner.adaptive.partitioning.enable
    partitioner.availability.timeout.ms partitioner.class partitioner.ignore.keys retries session.timeout.ms
    share.acknowledgement.mode share.acquire.mode transaction.timeout.ms transaction.two.phase.commit.enable
    transactional.id value.deserializer value.serializer
"""
LEFT_OUT = {
    "the Java client's own metrics": (
        "auto.include.jmx.reporter metric.reporters metrics.num.samples metrics.recording.level "
        "metrics.sample.window.ms"
    ),
    "a schema registry is not asked: records are made of bytes": (
        "basic.auth.credentials.source basic.auth.user.info schema.registry.url"
    ),
    "librdkafka has times of its own for a log-in": (
        "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter "
        "sasl.kerberos.ticket.renew.window.factor sasl.login.connect.timeout.ms sasl.login.read.timeout.ms "
        "sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor "
        "sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms"
    ),
    "the client does not look into its tokens": (
        "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer "
        "sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms "
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url "
        "sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name"
    ),
    "librdkafka always encodes it as the standard asks (RFC 6749, 2.3.1)": "sasl.oauthbearer.header.urlencode",
    "librdkafka has one such time, socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.max.ms",
    "client and broker agree on the newest TLS that both have": "ssl.enabled.protocols ssl.protocol",
    "how Java itself does TLS": "ssl.keymanager.algorithm ssl.secure.random.implementation ssl.trustmanager.algorithm",
}
NOT_TAKEN = {
    "the suite's clients talk with brokers: state bootstrap.servers": "bootstrap.controllers",
    'the suite runs none of Java: state each secret in [client] as { env = "NAME" } or { file = "PATH" }': (
        "config.providers"
    ),
    "it names code of Java, which the suite's clients do not run": (
        "sasl.login.class sasl.oauthbearer.jwt.retriever.class security.providers ssl.engine.factory.class ssl.provider"
    ),
}
SHORTEST_MS, LONGEST_MS = 10, 300_000
"""Of librdkafka's socket.timeout.ms."""
SETTINGS: Mapping[str, Setting] = {
    **{name: Setting(Treatment.TRANSLATED, name) for name in SAME_NAME},
    **{name: Setting(Treatment.TRANSLATED, other) for name, other in RENAMED.items()},
    **{name: Setting(Treatment.TRANSLATED, words) for name, words in CONVERTED.items()},
    **{name: Setting(Treatment.SCENARIO) for name in OF_SCENARIOS.split()},
    **{name: Setting(Treatment.IGNORED, why) for why, names in LEFT_OUT.items() for name in names.split()},
    **{name: Setting(Treatment.REFUSED, why) for why, names in NOT_TAKEN.items() for name in names.split()},
}


def waits_for_answers(request_timeout_ms: str) -> str:
    """Return Java's request.timeout.ms within the bounds of socket.timeout.ms; what is no number as it is.

    In Java it bounds how long a client waits for any answer, as socket.timeout.ms does in librdkafka; of producers it
    is also what brokers are given for an acknowledgement, which is all that librdkafka's request.timeout.ms does.
    """
    value = request_timeout_ms.strip()
    return str(min(max(int(value), SHORTEST_MS), LONGEST_MS)) if value.isdecimal() else value
