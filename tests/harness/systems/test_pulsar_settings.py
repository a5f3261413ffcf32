"""Settings of the Pulsar load: legal ones, defaults, and the service URL with its listener."""

import ctypes
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.clients import LoadClientError
from perfgate.systems.pulsar.load import clib
from perfgate.systems.pulsar.load.client import configuration
from perfgate.systems.pulsar.load.settings import BY_KIND, CLIENT, complete, log_in, refuses

URL = {"serviceUrl": "pulsar://a:6650,b:6650"}


@pytest.mark.parametrize(
    ("settings", "kind", "words"),
    [
        ({"linger.ms": "5"}, "producer", "producer.linger.ms is no setting of the Pulsar load; legal: authParams"),
        ({"receiverQueueSize": "5"}, "producer", "batchingMaxPublishDelayMicros"),
        ({"batchingEnabled": "yes"}, "producer", "producer.batchingEnabled is 'yes'; legal: true, false"),
        ({"compressionType": "GZIP"}, "producer", "legal: NONE, LZ4, ZLIB, ZSTD, SNAPPY"),
        ({"batchingMaxPublishDelayMicros": "1500"}, "producer", "in steps of 1,000"),
        ({"batchingMaxMessages": "16385"}, "producer", "legal: 2 to 16,384"),
        ({"maxPendingMessages": "-1"}, "producer", "legal: 0 to"),
        ({"maxPendingMessages": "\N{SUPERSCRIPT TWO}"}, "producer", "legal: 0 to"),
        ({"receiverQueueSize": "0"}, "consumer", "legal: 1 to"),
        ({"ackTimeoutMillis": "9999"}, "consumer", "legal: 0 (off), 10,000 or more"),
    ],
)
def test_what_is_refused_comes_with_what_is_legal(settings: dict[str, str], kind: str, words: str) -> None:
    assert words in refuses(settings, kind)
    with pytest.raises(LoadClientError, match="legal"):
        complete({**URL, **settings}, kind)


@pytest.mark.parametrize("kind", BY_KIND)
def test_defaults_are_legal(kind: str) -> None:
    whole = complete(URL, kind)
    assert refuses(whole, kind) == ""
    assert whole.keys() == CLIENT.keys() | BY_KIND[kind].keys()


def test_defaults_are_those_of_the_java_client() -> None:
    whole = complete(URL, "producer")
    assert whole["batchingMaxPublishDelayMicros"] == "1000"
    assert whole["batchingMaxMessages"] == "1000"
    assert whole["batchingMaxBytes"] == str(128 << 10)
    assert whole["maxPendingBytes"] == str(64 << 20)


def test_what_is_stated_wins() -> None:
    assert complete({**URL, "sendTimeoutMs": "5000"}, "producer")["sendTimeoutMs"] == "5000"
    assert refuses({"ackTimeoutMillis": "10000"}, "consumer") == ""


def test_the_listener_is_behind_the_url() -> None:
    whole = complete({"serviceUrl": "pulsar://a:6650,b:6650#cross-zone"}, "consumer")
    assert (whole["serviceUrl"], whole["listenerName"]) == ("pulsar://a:6650,b:6650", "cross-zone")
    assert complete(URL, "consumer")["listenerName"] == ""


FILES = {"tlsCertificateFilePath": "/a.pem", "tlsKeyFilePath": "/k.pem"}
OWN = "tlsCertFile:/a.pem,tlsKeyFile:/k.pem"
TLS, TOKEN = (f"org.apache.pulsar.client.impl.auth.Authentication{kind}" for kind in ("Tls", "Token"))


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, ("", "")),
        ({"authPlugin": "token", "authParams": "token:x"}, ("token", "token:x")),
        ({"authPlugin": TOKEN, "authParams": "file:///t", **FILES}, (TOKEN, "file:///t")),
        ({"authPlugin": "tls", **FILES}, ("tls", OWN)),
        ({"authPlugin": TLS, "authParams": OWN}, (TLS, OWN)),
        (FILES, (TLS, OWN)),
        ({"tlsCertificateFilePath": "/a.pem"}, ("", "")),
    ],
)
def test_how_a_client_logs_in(stated: dict[str, str], expected: tuple[str, str]) -> None:
    assert log_in(complete({**URL, **stated}, "producer")) == expected


def test_a_plugin_that_would_be_loaded_from_a_file_is_refused() -> None:
    assert "legal: token, " in refuses({"authPlugin": "/x.so"}, "producer")


def test_libpulsar_has_what_was_set() -> None:
    stated = {
        "authPlugin": TOKEN,
        "authParams": "token:x",
        "tlsTrustCertsFilePath": "/ca.pem",
        "tlsAllowInsecureConnection": "true",
        "operationTimeoutMs": "7000",
        "numIoThreads": "3",
        **FILES,
    }
    conf = configuration(complete({"serviceUrl": "pulsar+ssl://a:6651#cross-zone", **stated}, "producer"))

    def found(name: str, kind: Any = ctypes.c_int) -> Any:
        get = getattr(clib.lib(), f"pulsar_client_configuration_{name}")
        get.restype, get.argtypes = kind, (ctypes.c_void_p,)
        return get(conf)

    text = ctypes.c_char_p
    assert found("get_listener_name", text) == b"cross-zone"
    assert found("get_tls_certificate_file_path", text) == b"/a.pem"
    assert found("get_tls_private_key_file_path", text) == b"/k.pem"
    assert found("is_tls_allow_insecure_connection") == 1
    assert found("is_validate_hostname") == 1, "as the requests of the start do"
    assert found("get_operation_timeout_seconds") == 7
    assert found("get_io_threads") == 3


@pytest.mark.parametrize("url", ["", "a:6650", "http://a:8080", "pulsar://a", "pulsar://a:6650,b", "pulsar://a:x"])
def test_a_url_that_would_end_the_process_is_refused(url: str) -> None:
    with pytest.raises(LoadClientError, match="serviceUrl is"):
        complete({"serviceUrl": url}, "producer")


@pytest.mark.parametrize("url", ["pulsar+ssl://a.b-c:6651", "pulsar://127.0.0.1:1,127.0.0.1:2/", "pulsar://[::1]:6650"])
def test_urls(url: str) -> None:
    assert complete({"serviceUrl": url}, "producer")["serviceUrl"] == url


@given(st.integers(-10, 1 << 40))
def test_numbers_are_legal_within_their_bounds(number: int) -> None:
    for kind, settings in BY_KIND.items():
        for name, setting in settings.items():
            if setting.least is not None and name != "ackTimeoutMillis":
                legal = setting.least <= number <= setting.most and number % setting.step == 0
                assert (refuses({name: str(number)}, kind) == "") == legal
