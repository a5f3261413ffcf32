"""Errors of librdkafka clients. Imports no library: which version is loaded is the scenario's choice."""

from __future__ import annotations

NO_ANSWER = "_TIMED_OUT"
NO_ANSWERS = (NO_ANSWER, "_TRANSPORT", "_ALL_BROKERS_DOWN")
"""librdkafka's names of missing answers."""


class KafkaClientError(Exception):
    """A client could not be made or a call was refused; the message is librdkafka's."""


class UnansweredError(KafkaClientError):
    """The brokers did not give a client what it needs; `code` is librdkafka's name of the error."""

    def __init__(self, reason: str, code: str) -> None:
        super().__init__(reason)
        self.code = code


class TransactionError(UnansweredError):
    """The brokers did not end a transaction as they should."""
