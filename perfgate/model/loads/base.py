"""Load: how records are offered, and the questions that each kind of load answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from perfgate.model.metrics import Amount, Count
from perfgate.model.shape import Shape

KINDS: dict[str, type[Load]] = {}
"""The type of each kind, by the kind's name: all that the files of this folder define."""


class _NameOfAKind:
    """How run.json states a kind, for pydantic."""

    def __get_pydantic_core_schema__(self, _source: object, _handler: object) -> object:
        from pydantic_core import core_schema  # the generators' processes read no run.json

        return core_schema.literal_schema([*KINDS])


class _OfItsKind(type):
    """Makes `Load(kind=...)` and `replace(load, kind=...)` give an object of that kind's type."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        kind = KINDS.get(values["kind"], Load) if "kind" in values and cls in (Load, *KINDS.values()) else cls
        return type.__call__(kind, *args, **values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Load(metaclass=_OfItsKind):
    """How records are offered; `Load(kind="paced", rate=500)` is a :class:`Paced`.

    Every kind has the same fields, which run.json states. A kind is one file next to this one: a frozen dataclass with
    a default for `kind` that answers otherwise than this class where it must. No caller compares a kind's name.
    """

    kind: Annotated[str, _NameOfAKind()]
    rate: Amount = 0.0
    records: Count = 0
    probes: bool = False
    """Whether a paced rate may be more than some machines take: that is a figure there, and red only where a threshold
    says that the brokers take it."""
    times_out: bool = False
    """Whether a paced rate is more than brokers take, so that records time out: their share is what is measured, and
    they are no failed sends."""
    share_of_knee: Amount = 0.0
    """What a paced `rate` is of the knee that an earlier run measured of the same load on the same target; 0: `rate` is
    what was stated. While that knee is not known, `rate` is 0."""
    level_p99_ms: Amount = 0.0
    """Of a ramp: the p99 that a rate may have; 0: ten times that of the first step (`UNLOADED_TIMES` of ramp.py)."""
    knee: str = ""
    """The knee that such a rate comes from, and its run; or why it is not known."""
    shape: Shape | None = None
    """How the rate of a shaped load changes over a window."""

    takes: ClassVar[tuple[str, ...]] = ("rate",)
    """The fields that a path `load.<field>` changes."""
    capped: ClassVar[bool] = False
    """Whether brokers get as much as they take, up to `rate`: the client's bounded buffer pushes back."""
    open_loop: ClassVar[bool] = False
    """Whether records are due at times of their own, whatever the brokers take."""
    searches: ClassVar[bool] = False
    """Whether a round consists of several loads, which search for a rate."""
    sends: ClassVar[bool] = True
    """False: consumers read, over and over, a topic that is filled once, before the first round."""
    may_be_lowered: ClassVar[bool] = False
    """Whether a target's limits lower the rate; a scenario with another load is not run there instead."""
    windows: ClassVar[int] = 1
    """About how many windows a round has."""
    counts_from: ClassVar[str] = "none"
    """The moment from which the suite's own driver counts latency."""
    decides: ClassVar[str] = "records_per_s"
    """The metric that decides."""
    also_judged: ClassVar[tuple[str, ...]] = ()
    """Metrics that are judged as well."""
    readers_metric: ClassVar[str] = ""
    """The metric that is judged as well where consumers read along: producers may feel nothing of what these wait for.
    Empty: none."""

    @property
    def fixed_rate(self) -> bool:
        """Whether `rate` is what is offered, no more and no less."""
        return self.open_loop and not self.searches

    @property
    def most_rate(self) -> float:
        """The highest rate that is offered, in records/s."""
        return self.rate

    @property
    def window_s(self) -> float:
        """How long a window lasts, in s; 0: as the tier says."""
        return 0.0

    @property
    def no_rate(self) -> str:
        """The reason why there is no rate yet; empty when there is."""
        unknown = self.share_of_knee and not self.rate
        return self.knee or f"its rate is {self.share_of_knee:g} x a knee that is not known" if unknown else ""

    @property
    def incomparable(self) -> str:
        """The reason why it cannot be compared with and without a change; empty when it can."""
        return ""

    @property
    def stated(self) -> Mapping[str, float]:
        """The values that a declaration has to state, by path."""
        return {} if self.share_of_knee else {"load.rate": self.rate}

    def judged(self, *, readers: bool) -> tuple[str, ...]:
        """Return the metrics that must be judged, first that which decides; `readers`: consumers read along."""
        return (self.decides, *self.also_judged, *([self.readers_metric] if readers and self.readers_metric else []))

    def cannot_decide(self, metric: str) -> str:
        """Return the reason why this metric cannot decide about a change of it; empty when it can."""
        return ""

    def lacks(self, field: str) -> str:
        """Return the reason why a change of this field changes nothing; empty when it may, or no load has the field."""
        kinds = [name for name, kind in KINDS.items() if field in kind.takes]
        return f"its load is {self.kind}, not {kinds[0]}" if kinds and field not in self.takes else ""

    def at_rate(self, rate: float) -> Load:
        return replace(self, rate=rate, share_of_knee=0.0, knee="")

    def in_shape(self, shape: Shape) -> Load:
        """Return the load at a rate of this shape; itself where it has no rate of its own."""
        return self

    def windows_of(self, window_s: float, warmup_s: float) -> float:
        """Return about how many of a tier's windows of this length, each with its warm-up, a round takes."""
        return max(self.windows, (self.window_s + warmup_s) / (window_s + warmup_s))

    def at_share_of_knee(self, share: float) -> Load:
        """Return the load at a share of the knee; itself where a knee is no measure of its rate."""
        return self

    def at_most(self, rate: float) -> Load:
        """Return the load lowered to this rate, where it may be lowered."""
        return replace(self, rate=rate) if self.may_be_lowered and self.rate > rate else self

    def warm_up(self, *, own: bool) -> Load:
        """Return the load that brokers which have just started, the suite's `own` or others, are warmed up with."""
        return self
