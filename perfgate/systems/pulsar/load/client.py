"""A libpulsar client of a topic, by settings, with its errors by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ctypes import byref, c_ulonglong, c_void_p

from perfgate.load.clients import LoadClientError, UnansweredError
from perfgate.systems.pulsar.load import clib
from perfgate.systems.pulsar.load.settings import LISTENER, SERVICE_URL, log_in

TRUE = "true"
OURS = ("InvalidConfiguration", "InvalidTopicName", "InvalidUrl", "OperationNotSupported")
"""Errors of libpulsar's own checks, without a broker."""


class Client:
    """A client of libpulsar, which ends with its process. Not thread-safe: a thread per client."""

    NO_ANSWER = "TimeOut"

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        """`settings` are complete. Raises LoadClientError without libpulsar."""
        self.topic = topic
        self.errors: dict[str, str] = {}
        self.failed: Counter[str] = Counter()
        self.throttled_ms = 0  # brokers stop reading a connection that is over its limit, and do not report it
        self._lib = clib.lib()
        self._client = c_void_p(self._lib.pulsar_client_create(settings[SERVICE_URL].encode(), configuration(settings)))

    def count_failure(self, code: int, records: int) -> None:
        name = clib.error_name(code)
        self.failed[name] += records
        self.errors.setdefault(name, clib.last_warning() or name)

    def partitions_of(self, expected: int) -> list[str]:
        """Names of the topic's partitions. Raises LoadClientError for another number of them."""
        partitions = c_void_p()
        self.must(
            self._lib.pulsar_client_get_topic_partitions(self._client, self.topic.encode(), byref(partitions)),
            "its partitions are not known",
        )
        count = self._lib.pulsar_string_list_size(partitions)
        names = [self._lib.pulsar_string_list_get(partitions, number).decode() for number in range(count)]
        self._lib.pulsar_string_list_free(partitions)
        if count != expected:
            raise LoadClientError(f"topic {self.topic}: it has {count} partitions, not {expected}")
        return names

    def must(self, code: int, failure: str) -> None:
        """Raise the error of this code, unless it is 0."""
        if not code:
            return
        name, warning = clib.error_name(code), clib.last_warning()
        reason = f"topic {self.topic}: {failure}: {name} {warning}".rstrip()
        raise LoadClientError(reason) if name in OURS else UnansweredError(reason, name)


def configuration(settings: Mapping[str, str]) -> c_void_p:
    """libpulsar's configuration of a client with these complete settings."""
    lib = clib.lib()
    conf = c_void_p(lib.pulsar_client_configuration_create())
    clib.silence(conf)
    clib.put(
        conf,
        "pulsar_client_configuration_set_",
        {
            "operation_timeout_seconds": int(settings["operationTimeoutMs"]) // 1_000,
            "keep_alive_interval_in_seconds": int(settings["keepAliveIntervalSeconds"]),
            "io_threads": int(settings["numIoThreads"]),
            "message_listener_threads": int(settings["numListenerThreads"]),
            "memory_limit": c_ulonglong(0),  # pending messages are bounded here
            "stats_interval_in_seconds": 0,
            "tls_allow_insecure_connection": int(settings["tlsAllowInsecureConnection"] == TRUE),
            "validate_hostname": int(settings["tlsHostnameVerificationEnable"] == TRUE),
            "listener_name": settings[LISTENER].encode(),
            "tls_trust_certs_file_path": settings["tlsTrustCertsFilePath"].encode(),
            "tls_certificate_file_path": settings["tlsCertificateFilePath"].encode(),
            "tls_private_key_file_path": settings["tlsKeyFilePath"].encode(),
        },
    )
    plugin, parameters = log_in(settings)
    if plugin:
        authentication = c_void_p(lib.pulsar_authentication_create(plugin.encode(), parameters.encode()))
        lib.pulsar_client_configuration_set_auth(conf, authentication)
    return conf
