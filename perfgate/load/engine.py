"""The suite's engine: a system's clients in generator processes of their own, merged over their common window."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

from perfgate.load.history import Rows
from perfgate.load.host_reports import added, host_reports, host_rtt_ms
from perfgate.load.instructions import CONSUME, DRAIN_MARGIN_S, MARGIN_S, PRODUCE, READY_TIMEOUT_S, Instructions, paired
from perfgate.load.journaled import JournaledGenerators, read_everything
from perfgate.load.payload import HEADER, is_compact, refuses_size
from perfgate.load.processes import Generators, NotInTimeError
from perfgate.load.schedule import WARM_S, Turn, timetable
from perfgate.load.transport import LocalTransport, Message, Transport, summed
from perfgate.load.wake import WakeProbe
from perfgate.model import KIB, Link, Load, Scenario, Settings
from perfgate.model.load import (
    Batching,
    Late,
    LoadError,
    LoadResult,
    LoadSpec,
    Observer,
    OverTime,
    Pace,
    Reached,
    Received,
    SendsFailedError,
    Sent,
)
from perfgate.model.metrics import PHASE_LATENCY

CATCH_UP_S = 15
DRAIN_TIMES = 2.0
"""Consumers that work have this many times the time that they should need for the rest."""
FILL_RATE = 1e9
COLUMNS = ("acked_by_partition", "markers_by_partition", "latency_by_partition", "latency_by_topic")
OF_A_CLIENT = ("pushback_s", "pushback_in_window_s", "committing_in_window_s", "stalled_in_window_s")
"""Times that clients spend side by side: the result is the average client's."""


class SuiteEngine:
    """See :class:`perfgate.model.load.Engine`."""

    takes_turns = True

    def __init__(self, instructions: Instructions, transport: Transport | None = None) -> None:
        """`transport` of the generator processes of rounds; None: on this host."""
        self._system = instructions
        self.name, self.buffer_settings = instructions.engine, instructions.buffer_settings
        self._transport = transport or LocalTransport()

    def cannot(self, scenario: Scenario) -> str | None:
        if scenario.client_version and not self._transport.here:
            return "another release of the client is fetched to the machine of the run alone; run it without --hosts"
        if scenario.beside and not self._transport.here:
            return "loads beside one another are made on the machine of the run; run it without --hosts"
        if reason := next((why for part in scenario.parts if (why := self.cannot(part))), None):
            return reason
        if reason := self._transport.cannot(scenario.link):
            return reason
        if scenario.load.shape and scenario.has_fault:
            return "what a fault costs is measured at a constant rate: it has no shape"
        return _too_small(scenario) or self._system.cannot(scenario) or self._too_large(scenario)

    def _too_large(self, scenario: Scenario) -> str | None:
        """The reason why records that differ do not fit the producers' buffer; None when they do."""
        if not scenario.sizes or scenario.largest_bytes <= self.batching(scenario).buffer_kib * KIB // 2:
            return None
        settings = " and ".join(self.buffer_settings)
        return f"records of {scenario.largest_bytes:,} bytes need a buffer of twice that: raise {settings}"

    def batching(self, scenario: Scenario) -> Batching:
        return self._system.batching(scenario)

    def latency_basis(self, load: Load) -> str:
        return load.counts_from

    def by_hand(self, scenario: Scenario) -> str:
        return self._system.by_hand(scenario)

    def rtt_ms(self, link: Link, bootstrap: str, security: Settings) -> float | None:
        """Median over this link's load hosts of their round trips, in ms; None: no other machine. Raises LoadError."""
        if self._transport.here or self._transport.cannot(link):
            return None
        return host_rtt_ms(self._system.system, self._transport.on(link), link, bootstrap, security)

    def run(self, spec: LoadSpec, observer: Observer) -> LoadResult:
        transport = self._transport.on(spec.scenario.link)
        transport = transport.first(spec.hosts) if spec.hosts else transport
        load = spec.scenario.load
        backlog = not load.sends
        producers = {} if backlog else self._system.producers_of(spec)
        consumers = self._system.consumers_of(spec)
        # Not in a round on a host fewer: it is compared with rounds whose producers write all partitions.
        pairs = transport.size > 1 and not spec.hosts and paired(producers, consumers)
        workers = {**consumers, **producers}
        # The brokers are warmed up without the loads beside; in a round none may be left out.
        loads = zip(spec.scenario.beside, spec.beside, strict=bool(spec.beside))
        beside = {f"{part.name}-": part_spec for part, part_spec in loads}
        for prefix, part_spec in beside.items():
            requests = {**self._system.consumers_of(part_spec), **self._system.producers_of(part_spec)}
            workers |= {f"{prefix}{name}": request for name, request in requests.items()}
        # It measures this machine alone.
        probe = _wake_probe(spec.scenario.load) if transport.here else nullcontext()
        works = spec.scenario.consumers is not None and spec.scenario.consumers.work_ms > 0
        leading, due = CONSUME if backlog else PRODUCE, load.open_loop and not load.times_out
        groups = spec.scenario.groups if works else 0
        with (
            probe as wake,
            Generators(workers, transport, leading=leading, reads=backlog, due=due, groups=groups) as generators,
        ):
            generators.wait_for("ready", READY_TIMEOUT_S, observer)
            start = time.monotonic() + generators.lead_s
            generators.post(start=start)
            steady = generators.warm_up(start, spec.warmup_max_s, observer)
            opens = time.monotonic() + generators.lead_s
            closes = opens + spec.window_s
            generators.post(window=[opens, closes])
            for edge in (opens, closes):
                generators.listen_until(edge, "measuring", observer)
                observer.edge(edge)
            # The rate of a shaped load grows and falls by itself.
            growth = 1.0 if spec.scenario.load.shape else generators.growth(opens, closes)
            woken_ms = wake.p99_ms(opens, closes) if wake else None
            sent, received, drained_s = self._results(generators, spec, observer)
            lag = generators.lag(opens, closes, drained_s) if works else None
            others = [
                self._results(generators, part_spec, observer, prefix)[:2] for prefix, part_spec in beside.items()
            ]
            began = {name: message["at"] - start for name, message in generators.messages("started").items()}
            machines, results = transport.machines(), generators.messages("result")
            hosts = host_reports(transport.clocks(start), began, results, machines, window_s=closes - opens)
        result, *parts = (
            _load_result(
                *messages,
                warmup_s=opens - start,
                steady=steady,
                window_s=closes - opens,
                woken_ms=woken_ms,
                groups=max(1, load_spec.scenario.groups),
            )
            for load_spec, messages in zip((spec, *spec.beside), ((sent, received), *others), strict=True)
        )
        return replace(result, hosts=hosts, one_clock=pairs, growth=growth, beside=tuple(parts), lag=lag)

    def _results(
        self, generators: Generators, spec: LoadSpec, observer: Observer, prefix: str = ""
    ) -> tuple[Sequence[Message], Sequence[Message], float | None]:
        """Results of the producers and consumers named with `prefix`, in the end, and `drained_s` of :class:`Lag`."""
        within_s = self._system.drain_s_of(spec.scenario) + DRAIN_MARGIN_S
        role, groups = f"{prefix}{CONSUME}", spec.scenario.groups
        sent = generators.wait_for(
            "result", within_s, observer, only=f"{prefix}{PRODUCE}", phase="waiting for acknowledgements"
        )
        due, drained_s = groups * sum(result["acked"] for result in sent), None
        if spec.scenario.consumers and spec.scenario.consumers.work_ms:
            drained_s = _drained_s(generators, spec.scenario, role, due, observer)
            generators.post(role, hurry=True)
        if sent and groups:
            generators.wait_for_done(role, due, CATCH_UP_S, observer)
        generators.post(role, stop=True)
        received = generators.wait_for("result", DRAIN_MARGIN_S, observer, only=role, phase="ending consumers")
        return sent, received, drained_s

    def take_turns(
        self, specs: Mapping[str, LoadSpec], order: str, at: Pace, observer: Observer
    ) -> tuple[dict[str, LoadResult], Mapping[str, Late]]:
        specs = {
            side: replace(spec, scenario=self._system.buffered(spec.scenario, at.buffer_kib))
            for side, spec in specs.items()
        }
        drain_s = max(self._system.drain_s_of(spec.scenario) for spec in specs.values())
        # Relative to the start, which is set once every process is ready.
        turns = timetable(order, 0.0, at)
        most_s = turns[-1].closes + drain_s + MARGIN_S
        times = {
            side: [[turn.starts, turn.opens, turn.closes] for turn in turns if turn.side == side] for side in specs
        }
        workers = {
            f"{side}-{name}": {**request, "gap_s": at.gap_s, "turns": times[side], "most_s": most_s}
            for side, spec in specs.items()
            for name, request in self._system.producers_of(spec).items()
        }
        with _wake_probe(next(iter(specs.values())).scenario.load) as wake, Generators(workers) as generators:
            generators.wait_for("ready", READY_TIMEOUT_S, observer)
            begin = time.monotonic() + generators.lead_s
            measured = [turn for turn in timetable(order, begin, at) if turn.closes > turn.opens]
            by_side = {side: [turn for turn in measured if turn.side == side] for side in specs}
            for side, own in by_side.items():
                generators.post(side, start=begin, window=[own[0].starts, own[-1].closes])
            for turn in measured:
                for edge in (turn.opens, turn.closes):
                    generators.listen_until(edge, "taking turns", observer)
                    observer.edge(edge)
            woken_ms = wake.p99_ms(measured[0].opens, measured[-1].closes) if wake else None
            results = {
                side: generators.wait_for(
                    "result", drain_s + DRAIN_MARGIN_S, observer, only=side, phase="waiting for acknowledgements"
                )
                for side in specs
            }
        loads = {}
        for side, sent in results.items():
            own = by_side[side]
            active = sum(turn.closes - turn.starts for turn in own)
            window_s = sum(turn.closes - turn.opens for turn in own)
            share = active / (own[-1].closes - own[0].starts)
            loads[side] = _load_result(
                sent, [], warmup_s=WARM_S, steady=True, window_s=window_s, woken_ms=woken_ms, share=share
            )
        return loads, {side: _late(turns, side, sent) for side, sent in results.items()}

    def fill(self, spec: LoadSpec, observer: Observer) -> None:
        """See the protocol. Raises SendsFailedError, a LoadError, when the brokers did not take some."""
        records = spec.scenario.load.records
        load = Load(kind="capped", rate=min(FILL_RATE, spec.most_rate))
        scenario = replace(spec.scenario, producers=1, threads=1, load=load)
        (request,) = self._system.producers_of(replace(spec, scenario=scenario)).values()
        write_s = max(records * scenario.record_bytes / 1e6, 2 * records / load.rate)
        bound_s = self._system.drain_s_of(scenario) + write_s
        request |= {"records": records, "most_s": bound_s + MARGIN_S}
        with Generators({PRODUCE: request}, leading=PRODUCE) as generators:
            generators.wait_for("ready", READY_TIMEOUT_S, observer)
            generators.post(start=time.monotonic())
            try:
                (result,) = generators.wait_for("result", bound_s, observer, phase="writing the backlog")
            except NotInTimeError as error:
                if (last := generators.last) is None or not last.attempted:
                    raise
                reason = f"of the backlog's {records:,} records {last.done:,} were acknowledged in {bound_s:.0f} s"
                raise SendsFailedError(
                    f"{reason}; {last.last_error}", attempted=last.attempted - last.done, failed=last.failed
                ) from error
        if result["acked"] == records:
            return
        reason = f"of the backlog's {records:,} records {result['acked']:,} were acknowledged: {result['errors']}"
        failed, not_taken = result["failed"], result["attempted"] - result["acked"]
        if not not_taken:
            raise LoadError(reason)
        code = next(iter(failed)) if len(failed) == 1 else ""
        raise SendsFailedError(reason, attempted=not_taken, failed=sum(failed.values()), code=code)

    def journaled(self, spec: LoadSpec, folder: Path, observer: Observer) -> JournaledGenerators:
        return JournaledGenerators(self._system, spec, folder, observer, self._transport.on(spec.scenario.link))

    def read_everything(self, spec: LoadSpec, folder: Path, ends: Sequence[int], observer: Observer) -> Rows:
        return read_everything(self._system, spec, folder, ends, observer)


def _drained_s(generators: Generators, scenario: Scenario, role: str, due: int, observer: Observer) -> float | None:
    """Time for the rest, in s; None: longer than by the declared pace, or declared to fall behind (no wait)."""
    if scenario.falls_behind_per_s or scenario.consumers is None:
        return None
    began, takes_per_s = time.monotonic(), scenario.groups * scenario.consumers.takes_per_s
    most_s = CATCH_UP_S + DRAIN_TIMES * (due - generators.done(role)) / takes_per_s
    whole = generators.wait_for_done(role, due, most_s, observer)
    return time.monotonic() - began if whole else None


def _wake_probe(load: Load) -> AbstractContextManager[WakeProbe | None]:
    """A probe of the machine's wake-up delay where a schedule depends on it."""
    return WakeProbe() if load.open_loop else nullcontext()


def _late(turns: Sequence[Turn], side: str, sent: Sequence[Message]) -> Late:
    """Number of a side's turns, before a measured turn of the other side, in which any client was late."""
    own = [number for number, turn in enumerate(turns) if turn.side == side]
    followed = [
        index
        for index, number in enumerate(own)
        for after in turns[number + 1 : number + 2]
        if after.side != side and after.closes > after.opens
    ]
    late = sum(any(result["late_turns"][index] for result in sent) for index in followed)
    return Late(turns=late, of=len(followed))


def _load_result(
    sent: Sequence[Message],
    received: Sequence[Message],
    *,
    warmup_s: float,
    steady: bool,
    window_s: float,
    woken_ms: float | None,
    share: float = 1.0,
    groups: int = 1,
) -> LoadResult:
    """The processes' results added up, of equally many for each of `groups`; they worked for `share` of the time."""
    everything = [*sent, *received]
    return LoadResult(
        warmup_s=warmup_s,
        steady=steady,
        window_s=window_s,
        cpu_cores=sum(result["cpu_cores"] for result in everything) / share,
        busiest_thread_cores=max(result["busiest_thread_cores"] for result in everything) / share,
        rss_mib=max(result["rss_mib"] for result in everything),
        sent=_sent(sent) if sent else None,
        received=_received(received, groups) if received else None,
        wake_delay_p99_ms=woken_ms,
        window_late_s=max(result.get("window_late_s", 0.0) for result in everything),
    )


def _too_small(scenario: Scenario) -> str:
    """The reason why records are too small for the measurement, or cannot differ in size; empty when there is none."""
    if scenario.sizes and scenario.payload.kind == "lines":
        return "its payload is lines, which have lengths of their own"
    if (
        (scenario.load.capped or scenario.load.shape)
        and scenario.consumers
        and is_compact(scenario.payload, scenario.record_bytes)
    ):
        return (
            f"the latency from send to receipt is not known of records of {scenario.record_bytes} bytes that follow no "
            f"even schedule: their time needs {HEADER.itemsize} bytes"
        )
    return refuses_size(scenario.payload, scenario.record_bytes)


def _sent(results: Sequence[Message]) -> Sent:
    total = summed(results)
    figures: dict[str, Any] = {
        **{name: total[name] for name in (*_counts(Sent), *COLUMNS, "failed", "errors")},
        **{name: float(sum(r[name] / r["clients"] for r in results)) / len(results) for name in OF_A_CLIENT},
        **{name: added(results, name) for name in ("latency", "send_latency", "schedule_delay")},
    }
    if "sent_over_time" in total:
        figures["over_time"] = OverTime(
            sent=total["sent_over_time"],
            acked=total["acked_over_time"],
            latency=total["latency_over_time"],
            phases={phase: added(results, name) for phase, name in PHASE_LATENCY.items()},
        )
    return Sent(crowd=_reached([result["crowd"] for result in results if "crowd" in result]), **figures)


def _reached(crowds: Sequence[Sequence[int]]) -> Reached | None:
    if not crowds:
        return None
    asked, reached = (sum(crowd[place] for crowd in crowds) for place in (0, 1))
    settled_s = max(crowd[2] for crowd in crowds) / 1e6 if asked == reached else 0.0
    return Reached(asked=asked, reached=reached, settled_s=settled_s)


def _received(results: Sequence[Message], groups: int) -> Received:
    total, each = summed(results), len(results) // groups
    parts = [results[begin : begin + each] for begin in range(0, len(results), each)]
    return Received(
        failed=total["failed"],
        errors=total["errors"],
        fetch_ms=total["fetch_ms"] / total["fetches"] if total["fetches"] else None,
        latency=added(results, "latency"),
        by_group=[(sum(r["received"] for r in part), sum(r["received_in_window"] for r in part)) for part in parts],
        **{name: total[name] for name in _counts(Received)},
    )


def _counts(kind: type[Sent | Received]) -> list[str]:
    """Names of the counts: fields declared as an int, with or without bounds."""
    return [name for name, declared in get_type_hints(kind).items() if declared is int]
