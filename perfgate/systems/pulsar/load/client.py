"""A libpulsar client of one topic: made from settings, its errors by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ctypes import byref, c_ulonglong, c_void_p

from perfgate.load.clients import LoadClientError, UnansweredError
from perfgate.systems.pulsar.load import clib
from perfgate.systems.pulsar.load.settings import LISTENER, SERVICE_URL, log_in

TRUE = "true"
OURS = ("InvalidConfiguration", "InvalidTopicName", "InvalidUrl", "OperationNotSupported")
"""Errors that libpulsar finds by itself: no broker has given them, and none has failed to."""


class Client:
    """A client of libpulsar, which ends with its process. Not thread-safe: one thread per client."""

    NO_ANSWER = "TimeOut"

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        """`settings`: complete ones. Raises LoadClientError when libpulsar cannot be had."""
        self.topic = topic
        self.errors: dict[str, str] = {}
        self.failed: Counter[str] = Counter()
        self.throttled_ms = 0  # brokers read no more of a connection that is over its limit, and do not say so
        self._lib = clib.lib()
        self._client = c_void_p(self._lib.pulsar_client_create(settings[SERVICE_URL].encode(), configuration(settings)))

    def count_failure(self, code: int, records: int) -> None:
        name = clib.error_name(code)
        self.failed[name] += records
        self.errors.setdefault(name, clib.last_warning() or name)

    def partitions_of(self, expected: int) -> list[str]:
        """Ask for the names of the topic's partitions. Raises LoadClientError when they are not as many."""
        found = c_void_p()
        self.must(
            self._lib.pulsar_client_get_topic_partitions(self._client, self.topic.encode(), byref(found)),
            "its partitions are not known",
        )
        count = self._lib.pulsar_string_list_size(found)
        names = [self._lib.pulsar_string_list_get(found, number).decode() for number in range(count)]
        self._lib.pulsar_string_list_free(found)
        if count != expected:
            raise LoadClientError(f"topic {self.topic}: it has {count} partitions, not {expected}")
        return names

    def must(self, code: int, what: str) -> None:
        """Raise the error of this code, if it is one."""
        if not code:
            return
        name, warning = clib.error_name(code), clib.last_warning()
        reason = f"topic {self.topic}: {what}: {name} {warning}".rstrip()
        raise LoadClientError(reason) if name in OURS else UnansweredError(reason, name)


def configuration(settings: Mapping[str, str]) -> c_void_p:
    """Return libpulsar's configuration of a client with these settings, complete ones."""
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
            "memory_limit": c_ulonglong(0),  # what is pending is bounded here
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
        made = lib.pulsar_authentication_create(plugin.encode(), parameters.encode())
        lib.pulsar_client_configuration_set_auth(conf, c_void_p(made))
    return conf
