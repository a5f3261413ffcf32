"""Numbers of clients' settings, which librdkafka reads in part."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.catalogue.kafka import SCENARIOS
from perfgate.model import Consumers, Load, with_changes
from perfgate.model.changes import read_value
from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.client.settings import _DESCRIBED, check_settings, checked, loads_code
from tests.harness.build import scenario


@pytest.mark.parametrize(
    ("path", "value", "plain"),
    [
        ("producer.batch.size", "16k", "16384"),
        ("producer.batch.size", "64 KiB", "65536"),
        ("producer.batch.size", "1e6", "1000000"),
        ("producer.batch.size", "010000", "10000"),
        ("producer.batch.size", "0x10", "16"),
        ("producer.batch.size", "16_384", "16384"),
        ("producer.linger.ms", "5s", "5000"),
        ("producer.queue.buffering.max.kbytes", "32MB", "32768"),
        ("producer.batch.num.messages", "10k", "10000"),
        ("consumer.fetch.min.bytes", "1k", "1024"),
    ],
)
def test_a_number_that_librdkafka_reads_in_part_is_refused_with_the_plain_one(
    path: str, value: str, plain: str
) -> None:
    """`batch.size=16k` was 16 bytes."""
    with pytest.raises(ConfigurationError) as caught:
        checked(path, value)
    setting = path.partition(".")[2]
    assert f"--set {path}={value}: {setting} must be a plain number, as in {plain};" in str(caught.value)


@pytest.mark.parametrize("value", ["1.5", 2**32 + 1])
def test_a_part_and_more_than_librdkafka_keeps_are_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"batch.size must be a whole number from -2147483647 to 2147483647"):
        checked("producer.batch.size", value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("producer.acks", -1),
        ("producer.acks", "all"),
        ("producer.linger.ms", 0.5),
        ("producer.batch.size", 64e3),
        ("producer.compression.level", "-1"),
        ("producer.compression.type", "lz4"),
        ("producer.enable.idempotence", True),
        ("producer.enable.idempotence", "1"),
        ("producer.client.id", "1e6"),
        ("producer.client.rack", "2k"),
        ("producer.broker.version.fallback", "0.9.0"),
        ("consumer.partition.assignment.strategy", "range,roundrobin"),
        ("consumer.group.instance.id", "7a"),
    ],
)
def test_texts_and_plain_numbers_are_taken(path: str, value: object) -> None:
    assert checked(path, value)[0] == path


@pytest.mark.parametrize("scope", ["producer", "consumer"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("security.protocol", "plaintext"),
        ("sasl.mechanisms", "PLAIN"),
        ("sasl.mechanism", "PLAIN"),
        ("sasl.password", "s3cret-pw"),
        ("ssl.key.password", "s3cret-pw"),
        ("ssl.ca.location", "/dev/null"),
        ("ssl.endpoint.identification.algorithm", "none"),
        ("enable.ssl.certificate.verification", False),
        ("enable.sasl.oauthbearer.unsecure.jwt", True),
        ("https.ca.pem", "x"),
        ("bootstrap.servers", "elsewhere:9092"),
        ("metadata.broker.list", "elsewhere:9092"),
    ],
)
def test_how_clients_are_secured_is_the_targets_alone(scope: str, name: str, value: object) -> None:
    """The target file's checks were undone by them: its password went over the wire in clear text, others to run.json.

    By --set, in a change file and in a scenario of one's own.
    """
    row, stated = scenario(), ((name, str(value)),)
    consumers = Consumers(membership="assigned", config=stated)
    own = replace(row, producer=stated) if scope == "producer" else replace(row, consumers=consumers)
    for told, state in (
        (f"--set {scope}.{name}", lambda: checked(f"{scope}.{name}", value)),
        (f"[{scope}] {name}", lambda: checked(f"{scope}.{name}", value, written=f"[{scope}] {name} = {value!r}")),
        (f"batch-1k: {scope}.{name}", lambda: check_settings(own)),
    ):
        with pytest.raises(ConfigurationError) as caught:
            state()
        assert str(caught.value).startswith(f"{told}: it belongs in the target file's [client]")
        assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("producer.plugin.library.paths", "./evil.so", "plugin.library.paths"),
        ("consumer.plugin.library.paths", "evil", "plugin.library.paths"),
        ("producer.interceptor.classes", "a.B", "interceptor.classes"),
        ("producer.metric.reporters", "a.B", "metric.reporters"),
        ("producer.partitioner.class", "a.B", "partitioner.class"),
        ("consumer.config.providers", "file", "config.providers"),
        ("broker.metric.reporters", "a.B", "metric.reporters"),
        ("broker.authorizer.class.name", "a.B", "authorizer.class.name"),
        ("broker.remote.log.storage.manager.class.path", "evil.jar", "remote.log.storage.manager.class.path"),
        ("broker.metric.reporters", "org.apache.kafka.common.metrics.JmxReporter,a.B", "metric.reporters"),
        ("broker.sasl.login.class", "org.apache.kafka.common.security.kerberos.KerberosLogin", "sasl.login.class"),
        ("broker.config.providers", "x", "config.providers"),
        ("broker.sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required;", "sasl.jaas.config"),
        ("broker.sasl.kerberos.kinit.cmd", "touch x", "sasl.kerberos.kinit.cmd"),
        ("broker.sasl.login.callback.handler.class", "a.B", "sasl.login.callback.handler.class"),
        ("broker.sasl.oauthbearer.token.endpoint.url", "file:///etc/x", "sasl.oauthbearer.token.endpoint.url"),
        ("broker.security.providers", "a.B", "security.providers"),
        ("broker.group.consumer.assignors", "a.B", "group.consumer.assignors"),
        ("broker.ssl.engine.factory.class", "a.B", "ssl.engine.factory.class"),
        ("cluster.jvm", ["-Xmx1g", "-javaagent:evil.jar"], "-javaagent:evil.jar"),
        ("cluster.jvm", "-XX:OnOutOfMemoryError=reboot", "-XX:OnOutOfMemoryError=reboot"),
        ("cluster.jvm", ["-agentpath:evil.so"], "-agentpath:evil.so"),
        ("cluster.jvm", ["-Dcom.sun.management.jmxremote.port=1"], "-Dcom.sun.management.jmxremote.port=1"),
        ("cluster.jvm", ["-Xlog:gc:file=/etc/passwd"], "-Xlog:gc:file=/etc/passwd"),
    ],
)
def test_what_loads_code_or_runs_a_command_needs_a_word(path: str, value: object, named: str) -> None:
    """librdkafka loaded the library of plugin.library.paths as soon as it was asked whether it takes the setting."""
    scope, _, name = path.partition(".")
    row, pair = scenario(), ((name, str(value)),)
    rows: dict[str, Any] = {
        "producer": lambda: replace(row, producer=pair),
        "consumer": lambda: replace(row, consumers=Consumers(membership="assigned", config=pair)),
        "broker": lambda: replace(row, cluster=replace(row.cluster, config=pair)),
        "cluster": lambda: replace(row, cluster=replace(row.cluster, jvm_options=read_value(path, value))),
    }
    for state in (lambda: checked(path, value), lambda: check_settings(rows[scope]())):
        with pytest.raises(ConfigurationError) as caught:
            state()
        assert f"{named} loads code or runs a command" in str(caught.value)
        assert "add --allow-commands" in str(caught.value)
        assert "\n" not in str(caught.value)
    if scope in ("broker", "cluster"):
        assert checked(path, value, code_allowed=True)[0] == path
        check_settings(rows[scope](), code_allowed=True)


def test_a_plugin_is_not_loaded_before_it_is_allowed(tmp_path: Path) -> None:
    """librdkafka loads it as soon as it is asked, and says why it cannot: this one is no library."""
    plugin = tmp_path / "evil.so"
    plugin.write_bytes(b"no library")
    with pytest.raises(ConfigurationError, match="add --allow-commands") as refused:
        checked("producer.plugin.library.paths", str(plugin))
    assert "dlopen" not in str(refused.value)
    with pytest.raises(ConfigurationError, match=r"dlopen\(\) failed: .*evil\.so"):
        checked("producer.plugin.library.paths", str(plugin), code_allowed=True)


def test_kafkas_own_classes_need_none() -> None:
    own = "org.apache.kafka.common.metrics.JmxReporter, org.apache.kafka.server.metrics.Other"
    assert checked("broker.metric.reporters", own)
    assert checked("broker.group.consumer.assignors", "uniform,range")


def test_sizes_and_switches_of_a_jvm_need_none() -> None:
    options = ["-Xms1g", "-Xmx512m", "-XX:+UseZGC", "-XX:MaxGCPauseMillis=20", "-XX:MaxRAMPercentage=50.0", "-Xlog:gc"]
    assert checked("cluster.jvm", [*options, "-Djava.net.preferIPv4Stack=true", "-Dkafka.perf.gate=1"])


def test_every_known_broker_setting_that_names_a_class_needs_it() -> None:
    """So that a new one of a later Kafka is not forgotten: their names end alike."""
    classes = [name for name in _DESCRIBED["broker"] if re.search(r"class|reporters|provider|assignors|kinit", name)]
    assert len(classes) > 20
    assert not [name for name in classes if not loads_code(f"broker.{name}", "x")]


def test_the_catalogues_settings_are_what_set_takes() -> None:
    for row in SCENARIOS:
        check_settings(row)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("record.payload", "text:2"),
        ("record.keys", "hot:count=9,share=0.5"),
        ("record.sizes", "values:100=1/900=1"),
        ("load.shape", "spike:base=2,peak=9,seconds=3,period=9"),
        ("load.rate", "0.5 x knee"),
    ],
)
def test_a_value_that_is_a_type_is_kept_as_it_was_written(path: str, value: str) -> None:
    """It was read once as it was given and once more as it was laid: --set record.payload=text:2 was refused."""
    row = replace(scenario(), load=Load(kind="paced", rate=5))
    assert checked(path, value) == (path, value)
    assert with_changes(row, [checked(path, value)]) != row
