"""What a librdkafka client cannot do. Imports no library: which one is a scenario's to say."""

from __future__ import annotations


class KafkaClientError(Exception):
    """A client could not be made or a call was refused; the message is librdkafka's."""


class TransactionError(KafkaClientError):
    """The brokers did not end a transaction as they should; `code` is librdkafka's name of the error."""

    def __init__(self, reason: str, code: str) -> None:
        super().__init__(reason)
        self.code = code
