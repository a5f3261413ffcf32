"""How clients connect to real brokers: what a target file may state, and credentials in clear text."""

from pathlib import Path

import pytest

from perfgate.model.errors import ConfigurationError
from perfgate.systems.kafka.attached.described import CLIENT_ID, load_target
from tests.harness.build.real_brokers import FILE


def refused(tmp_path: Path, client: str) -> str:
    path = tmp_path / "target.toml"
    path.write_text(f"{FILE}[client]\n{client}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_target(path, lambda stores: {})
    return str(caught.value)


@pytest.mark.parametrize("name", ["acks", "group.id", "transactional.id", "debug", "linger.ms", "enable.idempotence"])
def test_the_client_table_says_how_to_connect_and_no_more(tmp_path: Path, name: str) -> None:
    message = refused(tmp_path, f'"{name}" = "1"')
    assert f"[client] {name}: only what a client needs to connect belongs here" in message
    assert f"--set producer.{name}=VALUE" in message


def test_clients_call_themselves_by_a_name_that_a_quota_can_be_put_on(tmp_path: Path) -> None:
    path = tmp_path / "target.toml"
    path.write_text(FILE)
    assert dict(load_target(path, lambda stores: {}).client)["client.id"] == CLIENT_ID
    path.write_text(f'{FILE}[client]\n"client.id" = "mine"\n')
    assert dict(load_target(path, lambda stores: {}).client)["client.id"] == "mine"


CLEAR = '"security.protocol" = "SASL_PLAINTEXT"\n"sasl.username" = "u"\n"sasl.password" = "longer-than-4"\n'


@pytest.mark.parametrize(
    ("mechanism", "refused_it"), [("PLAIN", True), ("SCRAM-SHA-512", False), ("OAUTHBEARER", True)]
)
def test_a_password_or_token_is_not_sent_in_clear_text_unasked(
    tmp_path: Path, mechanism: str, refused_it: bool
) -> None:
    path = tmp_path / "target.toml"
    client = f'[client]\n{CLEAR}"sasl.mechanisms" = "{mechanism}"\n'
    path.write_text(FILE + client)
    if refused_it:
        path.write_text((FILE + client).replace("SASL_PLAINTEXT", " SASL_PLAINTEXT"))  # librdkafka drops that blank
        with pytest.raises(ConfigurationError, match=r"in clear text: use SASL_SSL.*insecure = true at the top"):
            load_target(path, lambda stores: {})
        path.write_text(FILE + client)
        with pytest.raises(ConfigurationError, match=r"in clear text: use SASL_SSL.*insecure = true at the top"):
            load_target(path, lambda stores: {})
        for elsewhere in (f"{client}insecure = true\n{FILE}", f"{FILE}insecure = true\n{client}"):
            path.write_text(elsewhere)
            with pytest.raises(ConfigurationError, match=r"insecure.* stands at the top of the file, before"):
                load_target(path, lambda stores: {})
        path.write_text(f"insecure = true\n{FILE}{client}")
    load_target(path, lambda stores: {})


@pytest.mark.parametrize(
    ("client", "words"),
    [
        ('"security.protocol" = "SSL"', ""),
        ('"security.protocol" = "SSL"\n"enable.ssl.certificate.verification" = false', "certificates are not verified"),
        ('"security.protocol" = "SSL"\n"ssl.endpoint.identification.algorithm" = "none"', "host names in the brokers'"),
        ('"enable.ssl.certificate.verification" = false', ""),
    ],
)
def test_what_a_connection_does_not_make_sure_of_is_told(tmp_path: Path, client: str, words: str) -> None:
    path = tmp_path / "target.toml"
    path.write_text(f"{FILE}[client]\n{client}\n")
    found = load_target(path, lambda stores: {}).weaknesses
    assert bool(found) is bool(words)
    assert words in "".join(found)


@pytest.mark.parametrize(
    ("line", "words", "as_known"),
    [
        ('"enable.ssl.certificate.verification" = 0', "certificates are not verified", "false"),
        ('"enable.ssl.certificate.verification" = "F"', "certificates are not verified", "false"),
        ('"enable.ssl.certificate.verification" = "False"', "certificates are not verified", "false"),
        ('"ssl.endpoint.identification.algorithm" = "NONE"', "host names in the brokers'", "none"),
        ('"ssl.endpoint.identification.algorithm" = " None"', "host names in the brokers'", "none"),
    ],
)
def test_a_check_that_is_switched_off_by_another_spelling_is_told_too(
    tmp_path: Path, line: str, words: str, as_known: str
) -> None:
    """librdkafka switched it off, the run said nothing, and the diagnosis of TLS blamed a check that was not made."""
    path = tmp_path / "target.toml"
    path.write_text(f'{FILE}[client]\n"security.protocol" = "SSL"\n{line}\n')
    found = load_target(path, lambda stores: {})
    assert words in "".join(found.weaknesses)
    assert dict(found.client)[line.split('"')[1]] == as_known


@pytest.mark.parametrize(
    ("more", "refused_it"),
    [
        ('[prometheus]\nurl = "http://p:9090"\ntoken = "long-enough"\n', True),
        ('[prometheus]\nurl = "http://p:9090"\n[prometheus.headers]\n"X-Api-Key" = "long-enough"\n', True),
        ('[prometheus]\nurl = "http://p:9090"\n[prometheus.headers]\n"X-Scope-OrgID" = "kafka"\n', False),
        ('[prometheus]\nurl = "https://p:9090"\ntoken = "long-enough"\n', False),
        ('[prometheus]\nurl = "http://127.0.0.1:9090"\ntoken = "long-enough"\n', False),
        ('[client]\n"sasl.oauthbearer.token.endpoint.url" = "http://idp/token"\n', True),
        *(
            (f'[client]\n"sasl.oauthbearer.token.endpoint.url" = "http://{host}/token"\n', refused_it)
            for host, refused_it in {
                "localhost": False,
                "LOCALHOST:8080": False,
                "127.0.0.2:8080": False,
                "[::1]:8080": False,
                "localhost.corp.example": True,
                "localhost-idp:8080": True,
                "localhost@idp": True,
                "localhost:80@idp": True,
                "127.example.com": True,
                "127.0.0.1.example.com": True,
                "127.0.0.1@idp": True,
                "[::1]@idp": True,
            }.items()
        ),
    ],
)
def test_no_token_is_sent_over_http_unasked(tmp_path: Path, more: str, refused_it: bool) -> None:
    """Names that only begin as loopback does, such as localhost.corp.example, were taken for it."""
    path = tmp_path / "target.toml"
    path.write_text(FILE + more)
    if refused_it:
        with pytest.raises(ConfigurationError, match="is http: a password or token would go there in clear text"):
            load_target(path, lambda stores: {})
        path.write_text(f"insecure = true\n{FILE}{more}")
    load_target(path, lambda stores: {})
