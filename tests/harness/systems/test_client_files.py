"""Client files as they are handed out: every setting of the Java clients, log-in lines, and example targets."""

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.attached.client_settings import refuse_unknown_settings
from perfgate.systems.kafka.attached.described import load_target
from perfgate.systems.kafka.attached.java_properties import login_of, translated
from perfgate.systems.kafka.attached.java_settings import CONVERTED, SETTINGS, Treatment
from tests.harness.run_gate import ROOT

DOCUMENTED = (ROOT / "tests" / "harness" / "data" / "java_client_settings.txt").read_text().split()
"""What the producer's, consumer's and admin client's classes of kafka-clients 4.3.1 print as their documentation."""
EXAMPLES = sorted(set((ROOT / "examples" / "targets").glob("*.toml")) - {ROOT / "examples" / "targets" / "pulsar.toml"})
"""Of Kafka."""
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer"
LEAST = 'bootstrap-servers = "kafka-1:9093"\n[limits]\nbytes = "20 GB"\nmib-per-s = 50\n'


def no_stores(stores: Mapping[str, str]) -> Mapping[str, str]:
    return {name: "" for name in stores}


def test_every_setting_of_the_java_clients_is_known() -> None:
    assert len(DOCUMENTED) > 100
    assert set(DOCUMENTED) <= set(SETTINGS)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_setting_becomes_what_its_line_says(name: str) -> None:
    values = {
        "sasl.jaas.config": f"{PLAIN} required username='a' password='b';",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "client.dns.lookup": "use_all_dns_ips",
        "enable.metrics.push": "false",
        "metadata.recovery.strategy": "none",
        "sasl.oauthbearer.assertion.algorithm": "RS256",
        "sasl.oauthbearer.assertion.claim.jti.include": "true",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384",
    }
    given_value = values.get(name, "10000")
    known = SETTINGS[name]
    if known.treatment is Treatment.REFUSED:
        with pytest.raises(ConfigurationError, match=name):
            translated({name: given_value}, no_stores)
        return
    found = translated({name: given_value}, no_stores)
    if known.treatment is Treatment.TRANSLATED:
        assert not found.notes
        assert name in CONVERTED or known.words in found.settings
        client = {
            key: value for key, value in found.settings.items() if not key.startswith(("ssl.key", "ssl.ca", "ssl.cert"))
        }
        client.pop("bootstrap.servers", None)
        client.pop("ssl.truststore.location", None)
        refuse_unknown_settings({key: value for key, value in client.items() if not key.startswith("ssl.trust")})
    else:
        assert not found.settings
        assert name in found.notes[0]


def test_a_setting_that_nobody_knows_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match=r"'linger\.sm' is no setting of Kafka's clients"):
        translated({"linger.sm": "5"}, no_stores)


def test_a_placeholder_is_no_password() -> None:
    line = f'{PLAIN} required username="a" password="${{file:/run/secrets:password}}";'
    with pytest.raises(ConfigurationError, match=r"sasl\.jaas\.config.*placeholder"):
        translated({"sasl.jaas.config": line}, no_stores)


def test_a_cloud_services_file_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text(
        "# Required connection configs for Kafka producer, consumer, and admin\n"
        "bootstrap.servers=abc.example.cloud:9092\nsecurity.protocol=SASL_SSL\n"
        f"sasl.jaas.config={PLAIN} required username='KEY' password='s3cret-of-cloud';\n"
        "sasl.mechanism=PLAIN\nclient.dns.lookup=use_all_dns_ips\nsession.timeout.ms=45000\nacks=all\n"
        "client.id=ccloud-java-client\nschema.registry.url=https://registry\nbasic.auth.credentials.source=USER_INFO\n"
        "basic.auth.user.info=a:b\n"
    )
    path = tmp_path / "cloud.toml"
    path.write_text('[limits]\nbytes = "1 GB"\nmib-per-s = 5\n[client]\n"properties-file" = "client.properties"\n')
    target = load_target(path, no_stores)
    client = dict(target.client)
    assert (client["sasl.username"], client["sasl.password"]) == ("KEY", "s3cret-of-cloud")
    assert target.left_out == (
        "client.properties: session.timeout.ms, acks: left out, scenarios state what producers and consumers do",
        "client.properties: schema.registry.url, basic.auth.credentials.source, basic.auth.user.info: left out, a "
        "schema registry is not asked: records are made of bytes",
    )


@pytest.mark.parametrize(
    ("options", "user", "password"),
    [
        ("username='gate' password='it\\'s'", "gate", "it's"),
        ('username="gate" password="a\\"b"', "gate", 'a"b'),
        ("username=gate\n  password=plain", "gate", "plain"),
        ("username=\"gate\" // the user\n password='x;y=z' /* and\n so on */", "gate", "x;y=z"),
        ("username='gate' password='a\\tb\\061'", "gate", "a\tb1"),
        ("username='' password='\"'", "", '"'),
    ],
)
def test_a_login_line_reads_as_in_java(options: str, user: str, password: str) -> None:
    found = login_of(f"{SCRAM} REQUIRED {options};")
    assert found == {"sasl.username": user, "sasl.password": password}


@given(user=st.text(max_size=20), password=st.text(max_size=20), quote=st.sampled_from("'\""))
def test_a_quoted_login_line_gives_back_what_was_quoted(user: str, password: str, quote: str) -> None:
    def quoted(text: str) -> str:
        escaped = text.replace("\\", "\\\\").replace(quote, f"\\{quote}").replace("\n", "\\n")
        return f"{quote}{escaped}{quote}"

    found = login_of(f"{PLAIN} required username={quoted(user)} password={quoted(password)} ;")
    assert found == {"sasl.username": user, "sasl.password": password}


@pytest.mark.parametrize(
    "line",
    [
        "",
        ";",
        f"{PLAIN} required username='hunter2' password='hunter2'",
        f"{PLAIN} required username='hunter2' password=;",
        f"{PLAIN} required username='hunter2\npassword=hunter2;",
        f"{PLAIN} perhaps username='hunter2';",
        f"{PLAIN} required 'hunter2'='hunter2';",
        f"{PLAIN} required keyTab='hunter2';",
        "com.sun.security.auth.module.Krb5LoginModule required keyTab='hunter2';",
    ],
)
def test_a_login_line_that_java_refuses_is_one_line_without_a_value(line: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sasl\.jaas\.config") as caught:
        login_of(line)
    assert "hunter2" not in str(caught.value).replace("option 'hunter2'", "")


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ('"security.protocol" = "SASL_SSL"\n"sasl.mechanisms" = "GSSAPI"\n', "sasl.mechanisms GSSAPI is not one that"),
        ('"security.protocol" = "SASL_SSL"\n', "sasl.mechanisms GSSAPI is not one that"),
        (
            '"security.protocol" = "SASL_SSL"\n"sasl.mechanisms" = "SCRAM-SHA-512"\n',
            "[client] sasl.username and sasl.password must be set",
        ),
        (
            '"security.protocol" = "SSL"\n"ssl.ca.location" = "/nowhere.pem"\n',
            "[client] ssl.ca.location: no such file: /nowhere.pem",
        ),
    ],
)
def test_settings_that_make_no_client_are_one_line_at_the_start(tmp_path: Path, client: str, words: str) -> None:
    """They were a traceback, and exit 1."""
    path = tmp_path / "staging.toml"
    path.write_text(f"{LEAST}[client]\n{client}")
    with pytest.raises(ConfigurationError) as caught:
        load_target(path, no_stores)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_log_in_that_is_not_used_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "staging.toml"
    path.write_text(f'{LEAST}[client]\n"sasl.username" = "gate"\n')
    assert load_target(path, no_stores).weaknesses == (
        "sasl.username and the like have no effect: security.protocol is PLAINTEXT",
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a key, and the certificate of it, which is its own authority."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(datetime(2020, 1, 1)).not_valid_after(datetime(2120, 1, 1))
    certificate = made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    file = tmp_path_factory.mktemp("keys") / "keys.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + certificate)
    return file


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_target_is_read(path: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secrets that it names, and the files of certificates, are the user's."""
    of_kafka = ("KAFKA_API_KEY", "KAFKA_API_SECRET", "KAFKA_USER", "KAFKA_PASSWORD")
    for name in (*of_kafka, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "PROMETHEUS_TOKEN"):
        monkeypatch.setenv(name, "a-value-of-a-test")
    example = tmp_path / path.name
    example.write_text(re.sub(r'(?m)^("ssl\.\w+\.location" += )"[^"]+"', rf'\1"{keys}"', path.read_text()))
    target = load_target(example, no_stores)
    assert target.limits.total_bytes > 0


def test_there_is_an_example_of_each_kind_of_cluster() -> None:
    kinds = {"plain", "scram", "mutual-tls", "cloud-api-keys", "msk", "msk-iam", "strimzi-inside", "strimzi-outside"}
    assert kinds <= {path.stem for path in EXAMPLES}
