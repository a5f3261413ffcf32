"""Settings of Kafka's Java clients by librdkafka's names, for workloads that were written for those clients.

What the Java client does where nothing is stated is stated here: it is what the workload was measured with.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.attached.java_settings import SETTINGS, Treatment, waits_for_answers
from perfgate.systems.kafka.client.settings import connects
from perfgate.systems.kafka.load.official import JAVA_PRODUCER_SETTINGS, RENAMED

PRODUCER_DEFAULTS: Mapping[str, str] = {
    "acks": "all",
    "batch.size": "16384",
    "linger.ms": "0",
    "max.in.flight.requests.per.connection": "5",
}
"""Of the Java client since 3.0; that of linger.ms until 4.0, where it became 5."""
MOST_IN_FLIGHT = 5
"""With idempotence."""
OF_JAVA: Mapping[str, tuple[str, int]] = {java: (name, factor) for name, (java, factor) in RENAMED.items() if factor}
NOT_THE_SAME = ("max.block.ms", "receive.buffer.bytes", "send.buffer.bytes", "transactional.id")
"""Of JAVA_PRODUCER_SETTINGS: librdkafka lacks them, calls them otherwise, or the scenario states them."""
OF_CONSUMERS = """
    auto.commit.interval.ms check.crcs fetch.max.bytes fetch.min.bytes group.protocol heartbeat.interval.ms
    isolation.level max.partition.fetch.bytes max.poll.interval.ms session.timeout.ms
"""
CONSUMER: Mapping[str, str] = {name: name for name in OF_CONSUMERS.split()} | {"fetch.max.wait.ms": "fetch.wait.max.ms"}
OF_THE_SUITE: Mapping[str, str] = {
    "auto.offset.reset": "consumers begin where the round's topic begins",
    "group.id": "each round has groups of its own",
    "enable.auto.commit": "what was read is committed every 5 s (auto.commit.interval.ms)",
    "bootstrap.servers": "the run's target says where the brokers are and how clients log in",
}
NO_COUNTERPART = "librdkafka has no such setting"


def producer_of(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return a producer's settings by librdkafka's names, and why others are not taken, by name.

    Raises ConfigurationError for what is no setting of Kafka's, and for those that Java's client refuses together.
    """
    stated = {name: value.strip() for name, value in {**PRODUCER_DEFAULTS, **properties}.items()}
    settings, left_out = dict[str, str](), dict[str, str]()
    for name, value in stated.items():
        if name == "enable.idempotence":
            continue
        if name == "acks":
            settings[name] = "-1" if value == "all" else value
        elif name == "request.timeout.ms":
            settings |= dict.fromkeys((name, "socket.timeout.ms"), waits_for_answers(value))
        elif name in OF_JAVA:
            other, factor = OF_JAVA[name]
            settings[other] = str(max(1, _number(name, value) // factor))
        elif name.startswith("compression.") and name.endswith(".level"):
            if name.split(".")[1] == stated.get("compression.type"):
                settings["compression.level"] = value
        elif name in JAVA_PRODUCER_SETTINGS and name not in NOT_THE_SAME:
            settings[name] = value
        else:
            _other(name, value, settings, left_out)
    settings["enable.idempotence"] = _idempotent(stated, settings)
    return settings, left_out


def consumer_of(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the same of a consumer; a setting of producers is none of its."""
    settings, left_out = dict[str, str](), dict[str, str]()
    for name, value in properties.items():
        if name in CONSUMER:
            settings[CONSUMER[name]] = value.strip()
        elif name == "request.timeout.ms":
            settings["socket.timeout.ms"] = waits_for_answers(value)
        elif name == "partition.assignment.strategy":
            settings[name] = ",".join(map(_assignor, value.split(",")))
        elif name == "enable.auto.commit" and value.strip() == "true":
            continue
        elif name in JAVA_PRODUCER_SETTINGS and SETTINGS[name].treatment is Treatment.SCENARIO:
            left_out[name] = "of producers"
        else:
            _other(name, value, settings, left_out)
    return settings, left_out


def _other(name: str, value: str, settings: dict[str, str], left_out: dict[str, str]) -> None:
    """Note a setting that both kinds of clients may have."""
    known = SETTINGS.get(name)
    if known is None:
        raise ConfigurationError(f"{name} is no setting of Kafka's clients; leave it out")
    if name in OF_THE_SUITE:
        left_out[name] = OF_THE_SUITE[name]
    elif known.treatment is Treatment.TRANSLATED and not connects(known.words) and not connects(name):
        settings[known.words] = value.strip()
    elif known.treatment is Treatment.TRANSLATED:
        left_out[name] = OF_THE_SUITE["bootstrap.servers"]
    else:
        left_out[name] = NO_COUNTERPART if known.treatment is Treatment.SCENARIO else known.words


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ConfigurationError(f"{name} = {value!r} must be a whole number") from None


def _assignor(name: str) -> str:
    stem = name.strip().rpartition(".")[2].removesuffix("Assignor").lower()
    return {"cooperativesticky": "cooperative-sticky", "sticky": "cooperative-sticky"}.get(stem, stem)


def _idempotent(stated: Mapping[str, str], settings: Mapping[str, str]) -> str:
    asked = stated.get("enable.idempotence", "")
    in_flight = _number("max.in.flight.requests.per.connection", stated["max.in.flight.requests.per.connection"])
    can = settings["acks"] == "-1" and in_flight <= MOST_IN_FLIGHT and stated.get("retries") != "0"
    if asked == "true" and not can:
        raise ConfigurationError(
            f"enable.idempotence = true needs acks=all, retries and {MOST_IN_FLIGHT} requests in flight at most: "
            "Java's client refuses it too"
        )
    return "true" if can and asked != "false" else "false"
