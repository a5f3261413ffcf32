"""Table of every setting of Kafka's Java clients and its treatment in a target file, for the code and for docs.

Sources: the clients' configuration references (kafka.apache.org/documentation, 4.3), librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
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


SAME_NAME = (
    "bootstrap.servers",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.kerberos.service.name",
    "sasl.oauthbearer.assertion.algorithm",
    "sasl.oauthbearer.assertion.claim.aud",
    "sasl.oauthbearer.assertion.claim.exp.seconds",
    "sasl.oauthbearer.assertion.claim.iss",
    "sasl.oauthbearer.assertion.claim.jti.include",
    "sasl.oauthbearer.assertion.claim.nbf.seconds",
    "sasl.oauthbearer.assertion.claim.sub",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.private.key.file",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "ssl.cipher.suites",
)
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
    "sasl.client.callback.handler.class": "sasl.mechanisms = AWS_MSK_IAM, of that vendor's handler; others are refused",
    "sasl.jaas.config": "sasl.username and sasl.password, or sasl.oauthbearer.*, by the login module",
    "sasl.login.callback.handler.class": (
        "sasl.oauthbearer.method = oidc, of Kafka's own handler; AWS_MSK_IAM, of that vendor's; others are refused"
    ),
    "ssl.endpoint.identification.algorithm": "the same name; empty, which switches the check off, becomes none",
    "ssl.key.password": "ssl.key.password, or the converted store's",
    **{name: "ssl.ca.location or ssl.keystore.location; JKS is converted" for name in STORES},
}
OF_SCENARIOS = (
    "acks",
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "batch.size",
    "buffer.memory",
    "check.crcs",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.auto.commit",
    "enable.idempotence",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "isolation.level",
    "key.deserializer",
    "key.serializer",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.idle.ms",
    "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "partitioner.class",
    "partitioner.ignore.keys",
    "retries",
    "session.timeout.ms",
    "share.acknowledgement.mode",
    "share.acquire.mode",
    "transaction.timeout.ms",
    "transaction.two.phase.commit.enable",
    "transactional.id",
    "value.deserializer",
    "value.serializer",
)
_OWN_METRICS = "the Java client's own metrics"
_REGISTRY = "a schema registry is not asked: records are made of bytes"
_LOGIN_TIMES = "librdkafka has times of its own for a log-in"
_TOKENS = "the client does not look into its tokens"
_JVM = "how Java itself does TLS"
LEFT_OUT = {
    "auto.include.jmx.reporter": _OWN_METRICS,
    "basic.auth.credentials.source": _REGISTRY,
    "basic.auth.user.info": _REGISTRY,
    "metric.reporters": _OWN_METRICS,
    "metrics.num.samples": _OWN_METRICS,
    "metrics.recording.level": _OWN_METRICS,
    "metrics.sample.window.ms": _OWN_METRICS,
    "sasl.kerberos.kinit.cmd": _LOGIN_TIMES,
    "sasl.kerberos.min.time.before.relogin": _LOGIN_TIMES,
    "sasl.kerberos.ticket.renew.jitter": _LOGIN_TIMES,
    "sasl.kerberos.ticket.renew.window.factor": _LOGIN_TIMES,
    "sasl.login.connect.timeout.ms": _LOGIN_TIMES,
    "sasl.login.read.timeout.ms": _LOGIN_TIMES,
    "sasl.login.refresh.buffer.seconds": _LOGIN_TIMES,
    "sasl.login.refresh.min.period.seconds": _LOGIN_TIMES,
    "sasl.login.refresh.window.factor": _LOGIN_TIMES,
    "sasl.login.refresh.window.jitter": _LOGIN_TIMES,
    "sasl.login.retry.backoff.max.ms": _LOGIN_TIMES,
    "sasl.login.retry.backoff.ms": _LOGIN_TIMES,
    "sasl.oauthbearer.clock.skew.seconds": _TOKENS,
    "sasl.oauthbearer.expected.audience": _TOKENS,
    "sasl.oauthbearer.expected.issuer": _TOKENS,
    "sasl.oauthbearer.header.urlencode": "librdkafka always encodes it as the standard asks (RFC 6749, 2.3.1)",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _TOKENS,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _TOKENS,
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _TOKENS,
    "sasl.oauthbearer.jwks.endpoint.url": _TOKENS,
    "sasl.oauthbearer.jwt.validator.class": _TOKENS,
    "sasl.oauthbearer.scope.claim.name": _TOKENS,
    "sasl.oauthbearer.sub.claim.name": _TOKENS,
    "schema.registry.url": _REGISTRY,
    "socket.connection.setup.timeout.max.ms": "librdkafka has one such time, socket.connection.setup.timeout.ms",
    "ssl.enabled.protocols": "client and broker agree on the newest TLS that both have",
    "ssl.keymanager.algorithm": _JVM,
    "ssl.protocol": "client and broker agree on the newest TLS that both have",
    "ssl.secure.random.implementation": _JVM,
    "ssl.trustmanager.algorithm": _JVM,
}
_JAVA_CODE = "it names code of Java, which the suite's clients do not run"
NOT_TAKEN = {
    "bootstrap.controllers": "the suite's clients talk with brokers: state bootstrap.servers",
    "config.providers": (
        'the suite runs none of Java: state each secret in [client] as { env = "NAME" } or { file = "PATH" }'
    ),
    "sasl.login.class": _JAVA_CODE,
    "sasl.oauthbearer.jwt.retriever.class": _JAVA_CODE,
    "security.providers": _JAVA_CODE,
    "ssl.engine.factory.class": _JAVA_CODE,
    "ssl.provider": _JAVA_CODE,
}
SETTINGS: Mapping[str, Setting] = {
    **{name: Setting(Treatment.TRANSLATED, name) for name in SAME_NAME},
    **{name: Setting(Treatment.TRANSLATED, other) for name, other in RENAMED.items()},
    **{name: Setting(Treatment.TRANSLATED, words) for name, words in CONVERTED.items()},
    **{name: Setting(Treatment.SCENARIO) for name in OF_SCENARIOS},
    **{name: Setting(Treatment.IGNORED, why) for name, why in LEFT_OUT.items()},
    **{name: Setting(Treatment.REFUSED, why) for name, why in NOT_TAKEN.items()},
}


def page_lines() -> Iterator[str]:
    """Yield the table of all settings as Markdown, for docs/client-files.md."""
    yield "| setting of a Java client | what becomes of it |"
    yield "|---|---|"
    for name, one in sorted(SETTINGS.items()):
        words = f": {one.words}" if one.words and one.words != name else ""
        yield f"| `{name}` | {one.treatment.value}{words} |"
