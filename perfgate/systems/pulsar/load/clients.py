"""Pulsar's clients of generator processes, created by their specs; see :class:`perfgate.load.clients.ClientModule`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from perfgate.load.clients import ReadingClient, SendingClient
from perfgate.systems.pulsar.client.roundtrip import connect_rtt_ms
from perfgate.systems.pulsar.load import native
from perfgate.systems.pulsar.load.reading import PulsarReader
from perfgate.systems.pulsar.load.sending import PulsarSender


def sending(spec: Mapping[str, Any], number: int) -> SendingClient:
    """See the protocol."""
    return PulsarSender(spec)


def reading(spec: Mapping[str, Any], number: int, counts: Callable[[], bool]) -> ReadingClient:
    """See the protocol."""
    return PulsarReader(spec, number)


def round_trip_ms(spec: Mapping[str, Any]) -> float:
    """Median over the brokers of the service URL of the time of a TCP connection, in ms. Raises BrokersFailedError.

    A load host is asked for it before its first round: the client is compiled then, which a round would not wait for.
    """
    native.cannot_have()
    return connect_rtt_ms(spec["bootstrap"])
