"""Watch over a load: shows its progress, and holds its sends against the target's limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from perfgate.load.instructions import PRODUCE
from perfgate.load.processes import rate_between
from perfgate.measure.ledger import WINDOWS, Ledger
from perfgate.metrics.usage import Sampler, Settled
from perfgate.model import COMPILING, Scenario
from perfgate.model.errors import BrokersFailedError
from perfgate.model.load import LoadResult, Observer, Progress, SendsFailedError
from perfgate.model.target import Cluster


class Say(Protocol):
    """Progress lines for the person who waits."""

    def __call__(self, text: str, left_s: float | None) -> None:
        """Show `text`, and the seconds that are left if they are known."""

    def note(self, text: str) -> None:
        """Write a line that stays."""

    def clear(self) -> None:
        """Remove what was shown."""


class LoadWatch:
    """Makes the observers of the loads on a cluster."""

    def __init__(self, cluster: Cluster, ledger: Ledger, say: Say) -> None:
        self._cluster, self._ledger, self._say = cluster, ledger, say
        self._last: Progress | None = None
        self._rate = ""

    def observer(
        self,
        scenario: Scenario,
        sampler: Sampler,
        progress: Callable[[str, Progress | None], None],
        *,
        measured: bool = False,
        sides: Mapping[str, Scenario] | None = None,
    ) -> Observer:
        """The observer of a load; `measured`: the ledger counts the time between a window's edges. `sides`: the forms
        that take turns on this cluster."""

        def edge(at: float) -> None:
            sampler.edge(at)
            if measured:
                self._ledger.begin("draining" if self._ledger.phase == WINDOWS else WINDOWS)

        def check() -> None:
            self._cluster.check()
            if measured:
                sampler.glance()

        return Observer(
            edge=edge,
            check=check,
            progress=progress,
            written=lambda: 0,
            settled=Settled(sampler.read, COMPILING) if sampler.read else lambda: True,
            sends=lambda last: self.hold_limits(scenario, last, sides),
        )

    def hold_limits(self, scenario: Scenario, last: Progress, sides: Mapping[str, Scenario] | None = None) -> None:
        """Raise TargetError when the load under way does more than the target allows. A process of `sides` belongs to
        one of them ("A-producer-1"); of a single one all failed sends count as its own."""
        attempted = last.attempted
        if sides:
            done = {name: n for name, n in last.by_process.items() if name.partition("-")[0] in sides}
            written = sum(n * sides[name.partition("-")[0]].stored_bytes for name, n in done.items())
            attempted = min(attempted, sum(done.values()) + last.failed) if len(sides) == 1 else attempted
        else:
            written = last.done * scenario.stored_bytes + sum(
                n * alone.stored_bytes
                for part, alone in zip(scenario.beside, scenario.parts, strict=True)
                for name, n in last.by_process.items()
                if name.startswith(f"{part.name}-{PRODUCE}")
            )
        if scenario.load.sends:  # a backlog is read, and was metered when it was written
            self._cluster.meter.under_way(written)
        most_failed = 1.0 if scenario.load.times_out else self._cluster.most_failed  # there that is the result
        failed, attempted = last.failed + last.failed_beside, attempted + last.attempted_beside
        if failed > most_failed * attempted:
            self._cluster.meter.stop(
                f"stopped at once, as the target file asks for: {failed} of {attempted} sends failed: "
                f"{last.last_error}",
                BrokersFailedError,
            )

    def hold_outcome(self, scenario: Scenario, done: LoadResult | SendsFailedError) -> None:
        """Hold a load that has ended against the limits: no progress reports the end, and some drivers report none."""
        if isinstance(done, SendsFailedError):
            self.hold_limits(scenario, Progress(time.monotonic(), done.attempted, 0, done.failed, str(done)))
        elif done.sent:
            names = [PRODUCE, *(f"{part.name}-{PRODUCE}" for part in scenario.beside)]
            self.hold_limits(scenario, _ended(zip(names, (done, *done.beside), strict=False)))

    def hold_turns(self, sides: Mapping[str, Scenario], done: Mapping[str, LoadResult]) -> None:
        """The same for turns that have ended, of the forms of the scenario that load this cluster."""
        self.hold_limits(next(iter(sides.values())), _ended((side, done[side]) for side in sides), sides)

    def progress(self, what: str, left: float | None) -> Callable[[str, Progress | None], None]:
        """A function that shows each phase of `what`; `left`: how many s the run still takes."""
        return lambda phase, last: self.report(f"{what}: {phase}", last, left)

    def report(self, text: str, last: Progress | None, left: float | None) -> None:
        """Show the text, with the records/s since the progress that was shown before."""
        before = self._last
        if last is None:
            self._last, self._rate = None, ""
        elif before is None or last.at > before.at:
            self._last = last
            self._rate = f", {rate_between(before, last):,.0f} records/s" if before else ""
        self._say(text + self._rate, left)


def _ended(loads: Iterable[tuple[str, LoadResult]]) -> Progress:
    """The last progress of loads that have ended, by their processes' names; `done` is that of the first."""
    sent = {name: result.sent for name, result in loads if result.sent}
    return Progress(
        time.monotonic(),
        attempted=sum(load.attempted for load in sent.values()),
        done=next((load.acked for load in sent.values()), 0),
        failed=sum(sum(load.failed.values()) for load in sent.values()),
        last_error=", ".join(dict.fromkeys(code for load in sent.values() for code in load.failed)),
        by_process={name: load.acked for name, load in sent.items()},
    )
