"""Requests to Pulsar's web service: fail-over, redirects, TLS, tokens, errors."""

import datetime
import ipaddress
import ssl
import time
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from perfgate.model import Settings
from perfgate.model.errors import BrokersFailedError, ConfigurationError
from perfgate.model.secret import Secret
from perfgate.systems.pulsar.client import http as module
from perfgate.systems.pulsar.client.admin import Admin, TopicName
from perfgate.systems.pulsar.client.http import FailedRequestError, RefusedError, WebService, token_of
from tests.harness.build.pulsar_brokers import FakePulsar, Partition, asked, served

TOPIC = TopicName("kpg/run", "kpg-t")
TOKEN = "eyJhbGciOiJIUzI1NiJ9.made-for-this-test.0123456789"
OVER_NETWORK = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with served(FakePulsar()) as found:
        found.namespaces["kpg/run"] = {}
        yield found


def with_token(value: str) -> Settings:
    return (("authParams", Secret(value)), ("authPlugin", OVER_NETWORK))


def test_another_broker_is_asked_where_one_is_gone_and_again_first(pulsar: FakePulsar) -> None:
    pulsar.down = {1}
    admin = Admin(pulsar.urls)
    assert admin.clusters() == ["kpg"]
    before = len(pulsar.requests)
    assert admin.version() == "4.0.8"
    assert [one.broker for one in pulsar.requests[before:]] == [2], "the one that has answered"


def test_a_redirect_into_the_brokers_own_network_is_followed_to_where_it_is_reached(pulsar: FakePulsar) -> None:
    name = str(TOPIC.partition(1)).removeprefix("persistent://")
    pulsar.topics["kpg/run/kpg-t"], pulsar.partitions[name] = 2, Partition([(1, 1, 1)])
    there = dict(pulsar.addresses)
    pulsar.addresses = {number: f"broker-{number}:8080" for number in there}
    reached = {f"broker-{number}:8080": at for number, at in there.items()}
    admin = Admin([f"http://{there[1]}"], reached=reached)
    assert admin.stats(TOPIC.partition(1))["msgInCounter"] == 0
    assert [one.broker for one in pulsar.requests[-2:]] == [1, 2]
    with pytest.raises(BrokersFailedError):
        Admin([f"http://{there[1]}"], tries=1).stats(TOPIC.partition(1))


def test_no_answer_is_perhaps_late(pulsar: FakePulsar) -> None:
    pulsar.down = {1, 2, 3}
    with pytest.raises(BrokersFailedError, match="asking brokers for the clusters: ") as caught:
        Admin(pulsar.urls).clusters()
    assert caught.value.perhaps_late


def test_a_silent_broker_costs_the_time_limit_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), lambda *_: time.sleep(3)) as silent:  # type: ignore[arg-type]
        web = WebService([f"http://127.0.0.1:{silent.server_address[1]}"], timeout_s=0.2, tries=1)
        begin = time.monotonic()
        with pytest.raises(BrokersFailedError, match="no answer in time"):
            web.get("/admin/v2/clusters", "asking")
        assert time.monotonic() - begin < 2


def test_a_redirect_is_followed_with_the_token(pulsar: FakePulsar) -> None:
    pulsar.token = TOKEN
    admin = Admin(pulsar.urls[:1], with_token(TOKEN))
    admin.create_topic(TOPIC, 3)
    admin.subscribe(TOPIC.partition(2), "kpg-end")
    assert [(one.broker, one.token) for one in pulsar.requests[-2:]] == [(1, TOKEN), (3, TOKEN)]
    assert pulsar.partitions["kpg/run/kpg-t-partition-2"].subscriptions == {"kpg-end"}


def test_without_the_token_it_is_refused_and_no_message_holds_it(pulsar: FakePulsar) -> None:
    pulsar.token = TOKEN
    with pytest.raises(RefusedError, match="Authentication required") as caught:
        Admin(pulsar.urls, with_token("token:another-one-that-is-wrong")).clusters()
    assert caught.value.status == 401
    assert "another-one" not in str(caught.value)


def test_brokers_that_name_one_another_end_the_request(pulsar: FakePulsar) -> None:
    pulsar.topics["kpg/run/kpg-t"] = 1
    pulsar.owner = lambda path: 0  # type: ignore[method-assign]
    pulsar.addresses[0] = pulsar.addresses[2]
    with pytest.raises(BrokersFailedError, match="name one another"):
        Admin(pulsar.urls).stats(TOPIC.partition(0))


@pytest.mark.parametrize(
    ("stated", "read"),
    [(TOKEN, TOKEN), (f"token:{TOKEN}", TOKEN), ("", "")],
    ids=["plain", "with its kind", "none"],
)
def test_the_token_as_stated(stated: str, read: str) -> None:
    assert token_of(dict(with_token(stated))) == read
    assert not token_of({"authParams": TOKEN}), "without a plug-in there is no log-in"


def test_the_tokens_file_is_read_each_time(tmp_path: Path, pulsar: FakePulsar) -> None:
    file = tmp_path / "token"
    admin = Admin(pulsar.urls, with_token(f"file://{file}"))
    for token in ("first", "second"):
        file.write_text(f"{token}\n")
        pulsar.token = token
        assert admin.clusters() == ["kpg"]
    file.unlink()
    with pytest.raises(ConfigurationError, match="the token's file"):
        admin.clusters()


def test_an_internal_error_keeps_its_first_line_and_its_cause(pulsar: FakePulsar) -> None:
    trace = "\n --- An error ---\n\njava.lang.X\n\tat a.b(C.java:1)\nCaused by: no bookies\n"
    pulsar.first.append((lambda _: True, (500, {"reason": trace})))
    with pytest.raises(
        FailedRequestError, match=r"asking brokers for the clusters: --- An error ---; Caused by: no bookies"
    ):
        Admin(pulsar.urls).clusters()


def test_a_broker_that_is_not_available_is_passed_over(pulsar: FakePulsar) -> None:
    pulsar.first.append((lambda _: True, (503, {"reason": "not yet"})))
    assert Admin(pulsar.urls).clusters() == ["kpg"]
    pulsar.first.extend([(lambda _: True, (503, {"reason": "not yet"}))] * 6)
    with pytest.raises(BrokersFailedError, match="not yet") as caught:
        Admin(pulsar.urls).clusters()
    assert caught.value.perhaps_late


def test_what_an_unanswered_try_has_made_counts_as_made(pulsar: FakePulsar) -> None:
    admin = Admin(pulsar.urls)

    def made_and_silent(request: object) -> bool:
        if asked(pulsar, "PUT", "/kpg-t/partitions"):
            pulsar.topics["kpg/run/kpg-t"] = 3
            return True
        return False

    pulsar.first.append((made_and_silent, None))
    admin.create_topic(TOPIC, 3)
    assert pulsar.topics == {"kpg/run/kpg-t": 3}
    with pytest.raises(RefusedError, match="already exists"):
        admin.create_topic(TOPIC, 3)


def test_the_environments_proxy_gets_nothing(pulsar: FakePulsar, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert Admin(pulsar.urls).clusters() == ["kpg"]


@pytest.mark.parametrize("url", ["pulsar://a:6650", "a:8080", "http://user:hush@a:8080", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(ConfigurationError, match="web service address"):
        Admin([url])
    with pytest.raises(ConfigurationError, match="no web service address"):
        Admin([])


def test_an_unknown_way_to_log_in_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"authPlugin 'a\.b\.Basic' is not known"):
        Admin(["http://a:8080"], (("authPlugin", "a.b.Basic"),))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A certificate for 127.0.0.1, one for another host, each with its key in one file."""
    folder, found = tmp_path_factory.mktemp("tls"), {}
    for name, host in (("here", "127.0.0.1"), ("elsewhere", "10.1.2.3")):
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(names, critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        found[name] = folder / f"{name}.pem"
        found[name].write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return found


@pytest.mark.parametrize(
    ("of_broker", "client", "fails"),
    [
        ("here", {"tlsTrustCertsFilePath": "here"}, ""),
        ("here", {}, "TLS failed: .*self.signed"),
        ("here", {"tlsTrustCertsFilePath": "elsewhere"}, "TLS failed"),
        ("here", {"tlsAllowInsecureConnection": "true"}, ""),
        ("elsewhere", {"tlsTrustCertsFilePath": "elsewhere"}, "TLS failed: .*mismatch"),
        ("elsewhere", {"tlsTrustCertsFilePath": "elsewhere", "tlsHostnameVerificationEnable": "false"}, ""),
    ],
    ids=["trusted", "unknown issuer", "another issuer", "anything goes", "another host", "any host"],
)
def test_tls(certificates: dict[str, Path], of_broker: str, client: dict[str, str], fails: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates[of_broker])

    def over_tls(server: ThreadingHTTPServer) -> None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)

    pulsar = FakePulsar(1)
    pulsar.scheme = "https"
    settings = tuple((name, str(certificates.get(value, value))) for name, value in client.items())
    with served(pulsar, over_tls):
        if fails:
            with pytest.raises(BrokersFailedError, match=fails):
                Admin(pulsar.urls, settings).clusters()
        else:
            assert Admin(pulsar.urls, settings).clusters() == ["kpg"]


def test_a_redirect_to_clear_text_is_not_followed(
    pulsar: FakePulsar, certificates: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token would go there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates["here"])
    secured, in_the_clear = FakePulsar(2), []
    secured.topics["kpg/run/kpg-t"] = 3
    with served(
        secured,
        lambda server: setattr(
            server, "socket", context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        ),
    ):
        secured.scheme = "http"  # what it says of itself
        secured.addresses[2] = pulsar.addresses[2]
        client = (("tlsTrustCertsFilePath", str(certificates["here"])), *with_token(TOKEN))
        with pytest.raises(BrokersFailedError, match="clear text: not followed"):
            Admin([f"https://{secured.addresses[1]}"], client).stats(TOPIC.partition(1))
        in_the_clear = pulsar.requests
    assert not in_the_clear


def test_the_time_limits_are_those_of_a_request() -> None:
    assert module.CONNECT_S < module.REQUEST_TIMEOUT_S <= 20
