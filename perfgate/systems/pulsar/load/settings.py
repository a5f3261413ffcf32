"""Settings of producers and consumers by the names of the Java client, checked, with its defaults.

Defaults are those of the Java client 4.0 where libpulsar's own differ: batches of 1 ms (not 10), 64 MiB of pending
messages, and no time-out for acknowledgements. But for maxPendingMessages: see PRODUCER.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from perfgate.load.clients import LoadClientError
from perfgate.load.positions import MOST_MESSAGES
from perfgate.systems.pulsar.client import TLS_PLUGINS, TOKEN_PLUGINS

SERVICE_URL = "serviceUrl"
LISTENER = "listenerName"
SERVICE = re.compile(r"pulsar(\+ssl)?://[^\s/,#]+:\d+(,[^\s/,#]+:\d+)*/?")
BIGGEST = 2**31 - 1
COMPRESSIONS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")  # in the order of libpulsar's numbers


@dataclass(frozen=True, slots=True)
class Setting:
    """A default and the legal values: these words, numbers from `least` to `most` by `step`, or else any text."""

    default: str
    words: tuple[str, ...] = ()
    least: int | None = None
    most: int = BIGGEST
    step: int = 1

    @property
    def legal(self) -> str:
        if self.words:
            return ", ".join(word for word in self.words if word)
        if self.least is None:
            return "any text"
        return f"{self.least:,} to {self.most:,}" + (f" in steps of {self.step:,}" if self.step > 1 else "")

    def takes(self, value: str) -> bool:
        if self.words:
            return value in self.words
        if self.least is None:
            return True
        return (
            value.isascii() and value.isdigit() and self.least <= int(value) <= self.most and not int(value) % self.step
        )


TRUTH = ("true", "false")
OTHER_PLUGINS = tuple(
    f"org.apache.pulsar.client.impl.auth.{name}"
    for name in ("AuthenticationBasic", "AuthenticationAthenz", "oauth2.AuthenticationOAuth2")
)
"""libpulsar loads any other name as a library, and ends the process where there is none."""
TEXT = Setting("")
CLIENT: Mapping[str, Setting] = {
    SERVICE_URL: TEXT,
    LISTENER: TEXT,
    "authPlugin": Setting("", ("", *TOKEN_PLUGINS, *TLS_PLUGINS, *OTHER_PLUGINS)),
    "authParams": TEXT,
    "tlsTrustCertsFilePath": TEXT,
    "tlsCertificateFilePath": TEXT,
    "tlsKeyFilePath": TEXT,
    "tlsAllowInsecureConnection": Setting("false", TRUTH),
    "tlsHostnameVerificationEnable": Setting("true", TRUTH),
    "operationTimeoutMs": Setting("15000", least=1_000, step=1_000),
    "keepAliveIntervalSeconds": Setting("30", least=1),
    "numIoThreads": Setting("1", least=1, most=64),
    "numListenerThreads": Setting("1", least=1, most=64),
}
"""Of clients of both kinds. operationTimeoutMs is 30000 for the Java client: the load reports its reason sooner.
tlsHostnameVerificationEnable is false for it: here a target file has to state that, and each start notes it."""
PRODUCER: Mapping[str, Setting] = {
    "batchingEnabled": Setting("true", TRUTH),
    "batchingMaxMessages": Setting("1000", least=2, most=MOST_MESSAGES),
    "batchingMaxBytes": Setting("131072", least=1),
    "batchingMaxPublishDelayMicros": Setting("1000", least=1_000, step=1_000),
    "compressionType": Setting("NONE", COMPRESSIONS),
    "maxPendingBytes": Setting("67108864", least=1),
    "maxPendingMessages": Setting("1000", least=0),
    "sendTimeoutMs": Setting("30000", least=1_000),
}
"""maxPendingBytes is the Java client's memoryLimitBytes, over all partitions. maxPendingMessages is a partition's, as
there, and counted over all of them together; it is the Java client's until 2.9 and that of all other clients, 0 for
none: without it 64 MiB wait in brokers and bookies, of which bookies with 128 MB of heap died. libpulsar counts the
delay of a batch in ms."""
CONSUMER: Mapping[str, Setting] = {
    "receiverQueueSize": Setting("1000", least=1),
    "acknowledgementsGroupTimeMicros": Setting("100000", least=0, step=1_000),
    "maxAcknowledgmentGroupSize": Setting("1000", least=1),
    "ackTimeoutMillis": Setting("0", least=0),
    "negativeAckRedeliveryDelayMicros": Setting("60000000", least=1_000, step=1_000),
    "priorityLevel": Setting("0", least=0),
    "batchIndexAckEnabled": Setting("false", TRUTH),
}
"""receiverQueueSize is that of each partition."""
LEAST_ACK_TIMEOUT_MS = 10_000
MOST_PENDING = 400_000
"""Messages that may be pending where maxPendingMessages is 0: of small ones fewer bytes are pending then. Each takes
about 700 bytes in libpulsar."""
BY_KIND: Mapping[str, Mapping[str, Setting]] = {"producer": PRODUCER, "consumer": CONSUMER}


def settings_of(stated: Iterable[tuple[str, str]], kind: str) -> dict[str, str]:
    """Full settings of a scenario's "producer" or "consumer", without those of the target."""
    return {name: setting.default for name, setting in BY_KIND[kind].items()} | dict(stated)


def log_in(settings: Mapping[str, str]) -> tuple[str, str]:
    """Plugin and parameters of a client's log-in; empty: none. Without another its certificate is the log-in."""
    plugin, given = settings.get("authPlugin", ""), settings.get("authParams", "")
    certificate, key = settings.get("tlsCertificateFilePath"), settings.get("tlsKeyFilePath")
    if certificate and key and (not plugin or (plugin in TLS_PLUGINS and not given)):
        return plugin or TLS_PLUGINS[-1], f"tlsCertFile:{certificate},tlsKeyFile:{key}"
    return plugin, given


def most_pending(settings: Mapping[str, str], partitions: int) -> int:
    """Number of messages that a client may have pending, whatever their size."""
    return min(MOST_PENDING, int(settings["maxPendingMessages"]) * partitions) or MOST_PENDING


def refuses(settings: Mapping[str, str], kind: str) -> str:
    """The reason why a "producer" or "consumer" cannot have these settings, with the legal ones; empty when it can."""
    legal = {**CLIENT, **BY_KIND[kind]}
    for name, value in settings.items():
        if name not in legal:
            return f"{kind}.{name} is no setting of the Pulsar load; legal: {', '.join(sorted(legal))}"
        if not legal[name].takes(value):
            return f"{kind}.{name} is {value!r}; legal: {legal[name].legal}"
    if 0 < int(given := settings.get("ackTimeoutMillis", "0")) < LEAST_ACK_TIMEOUT_MS:
        return f"{kind}.ackTimeoutMillis is {given!r}; legal: 0 (off), {LEAST_ACK_TIMEOUT_MS:,} or more"
    return ""


def complete(settings: Mapping[str, str], kind: str) -> dict[str, str]:
    """The settings with defaults, a listener apart. Raises LoadClientError, also for a URL that libpulsar dies of."""
    if reason := refuses(settings, kind):
        raise LoadClientError(reason)
    whole = {name: setting.default for name, setting in {**CLIENT, **BY_KIND[kind]}.items()} | dict(settings)
    url, _, listener = whole[SERVICE_URL].partition("#")
    if not SERVICE.fullmatch(url):
        raise LoadClientError(f"{SERVICE_URL} is {url!r}; legal: pulsar://host:port,... or pulsar+ssl://host:port,...")
    return {**whole, SERVICE_URL: url, LISTENER: listener or whole[LISTENER]}
