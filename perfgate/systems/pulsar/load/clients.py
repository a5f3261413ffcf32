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
    return PulsarSender(spec)


def reading(spec: Mapping[str, Any], number: int, counts: Callable[[], bool]) -> ReadingClient:
    return PulsarReader(spec, number)


def round_trip_ms(spec: Mapping[str, Any]) -> float:
    """Median time, in ms, of a TCP connection to the brokers. Load hosts compile the client here, before a round."""
    native.cannot_have()
    return connect_rtt_ms(spec["bootstrap"])
