"""Kafka's clients of generator processes, made as their specs say; see :class:`perfgate.load.clients.ClientModule`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import cimpl  # of the version that the scenario asks for

from perfgate.load.clients import LoadClientError, ReadingClient, SendingClient
from perfgate.model.declared import POLL_AT_ONCE
from perfgate.model.faults import STATIC
from perfgate.systems.kafka.load.reading import BATCH, Consumer
from perfgate.systems.kafka.load.sending import Producer


def sending(spec: Mapping[str, Any], number: int) -> SendingClient:
    _check_version(spec["client_path"])
    if share := spec.get("crowd"):
        from perfgate.systems.kafka.load.crowd import Crowd  # few loads are crowds

        return Crowd(spec["client"], spec["topics"][0], **share)
    # What names this client to the transaction coordinator.
    own = {"transactional.id": f"{spec['transactional_id']}-{number}"} if spec["transaction_ms"] else {}
    return Producer({**spec["client"], **own}, spec["topics"])


def reading(spec: Mapping[str, Any], number: int, counts: Callable[[], bool]) -> ReadingClient:
    _check_version(spec["client_path"])
    if spec["share"]:
        from perfgate.systems.kafka.load.sharing import ShareMember  # older clients have none

        return ShareMember(spec, number)
    return Consumer(
        member_settings(spec, number),
        spec["topics"],
        spec["assigned"][number] if spec["assigned"] else None,
        counts,
        stores=stores_when_done(spec),
        commit_records=spec["commit_records"],
        most=POLL_AT_ONCE if spec["work"] else BATCH,
    )


def member_settings(spec: Mapping[str, Any], number: int) -> dict[str, str]:
    """The settings of the consumer of this number: each static member has a name, and its successor the same."""
    client = dict(spec["client"])
    if STATIC in client:
        client[STATIC] += f"-{number - spec['first'] + spec.get('place', spec['first'])}"
    return client


def stores_when_done(spec: Mapping[str, Any]) -> bool:
    """Whether a position is committed only when its record is done with: in the journal, and its work done."""
    return not spec["assigned"] and bool(spec.get("history") or spec["work"] or spec["commit_records"])


def round_trip_ms(spec: Mapping[str, Any]) -> float:
    from perfgate.systems.kafka.client.roundtrip import connect_rtt_ms  # older clients lack what it needs

    return connect_rtt_ms(spec["bootstrap"], tuple(spec["client"].items()), spec["link"])


def _check_version(folder: str) -> None:
    if not cimpl.__file__.startswith(folder):
        raise LoadClientError(f"the client in {folder} was asked for, {cimpl.__file__} was loaded")
