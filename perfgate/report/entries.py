"""Types of run.json: recorded runs are read by them, and docs/run.schema.json is made from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal, get_args

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import Field, GetPydanticSchema

from perfgate import model
from perfgate.model.declared import LINKS, PART_NAME
from perfgate.model.metrics import PER_PART_METRICS, Amount, Count
from perfgate.model.structured import strict
from perfgate.model.system import SYSTEMS, VERSION_FACTS

SCHEMA: Literal[7] = 7
BROKERS = (rf"{stem}\.[0-9]+" for stem in model.PER_BROKER_METRICS)
PARTS = (rf"part\.{PART_NAME}\.{re.escape(name)}" for name in PER_PART_METRICS)
METRIC_NAME = "|".join([*map(re.escape, sorted(model.METRICS)), *BROKERS, *PARTS])
KINDS = ("embedded", "containers", "brokers")
MACHINE = ("cpu_model", "cores", "memory_mib", "kernel", "python", "confluent_kafka", "librdkafka", "commit")

GeneratorFigure = Literal[
    "cpu_cores_max",
    "busiest_thread_cores_max",
    "rss_mib_max",
    "pushback_share_min",
    "schedule_delay_p99_ms_max",
    "wake_delay_p99_ms_max",
]
STATED: Mapping[str, tuple[str, ...]] = {
    "Round": ("reading", "end_to_end_histogram", "not_sustained", "flaws"),
    "Accounting": ("partitions",),
    "ClusterSpec": ("system", "version", "config", "jvm_options"),
    "TopicSpec": ("config",),
    "Consumers": ("config",),
    "LoadEntry": ("rate", "records"),
}
"""Keys that every run states although the type has a default: a round whose `flaws` are lost must not be valid."""
Strings = tuple[str, ...]
Share = Annotated[float, Ge(-1)]
Numbers = tuple[float, ...]


def _stated(kind: Any) -> GetPydanticSchema:
    """Return the mark of a value that is handled as a mapping or a text, and is a `kind` in run.json."""
    return GetPydanticSchema(lambda _source, handler: handler(kind))


def _with(*names: str, **legal: Any) -> Any:
    """Return the mark of a mapping that has these names, some of them with few `legal` values."""
    return Field(json_schema_extra={"required": list(names), "properties": {k: {"enum": v} for k, v in legal.items()}})


def _of_target() -> Any:
    """Return the mark of a target's facts: its kind, its name, and the release of its system."""
    extra = _with("kind", "name", kind=[*KINDS], system=[*SYSTEMS]).json_schema_extra
    return Field(json_schema_extra={**extra, "anyOf": [{"required": [name]} for name in VERSION_FACTS.values()]})


@strict
class Declared:
    """The scenario as it was run, overrides included: what a :class:`Scenario` calls the same."""

    cluster: model.ClusterSpec
    topic: model.TopicSpec
    producer: model.Settings
    record_bytes: int
    producers: int
    threads: int
    transaction_ms: Amount = 0.0
    payload: model.Payload
    keys: model.Keys
    sizes: model.Sizes | None = None
    consumers: model.Consumers | None
    crowd: model.Crowd | None = None
    added_rtt_ms: int
    client_version: str = ""
    beside: tuple[model.Part, ...] = ()
    refusal: str = ""
    fault: model.Fault | None = None


@strict
class LoadEntry(model.Load):
    """The load, and the moment from which its latencies count: empty where nothing was measured."""

    latency_basis: Literal["buffer-acceptance", "intended-send", "actual-send", "none", ""]


@strict
class LinkEntry:
    """The client's link, and the round trip of one request over it."""

    name: Annotated[str, Field(pattern=f"^({'|'.join(LINKS)})$")]
    rtt_ms: float | None


@strict
class Recorded:
    """What is read back of a scenario's entry. `official_command` repeats the load with Kafka's own tools, or says why
    none does; for the others see :class:`Measurement`."""

    name: Annotated[str, Field(pattern="^[a-z0-9]+(-[a-z0-9]+)*$")]
    summary: str
    families: Strings
    factor: model.Settings
    load: LoadEntry
    link: LinkEntry
    rtt_ms: Mapping[str, Amount]
    canary: tuple[model.CanaryReading, ...]
    official_command: str = ""
    declared: Declared
    rounds: tuple[model.Round, ...]
    discarded_rounds: tuple[model.Round, ...]
    warm_up_rounds: tuple[model.Round, ...] = ()
    warming: str = ""
    enough: str = ""
    one_host_fewer: tuple[model.Round, ...] = ()
    broker_log_tail: str


@strict
class FirstLook:
    """What was judged first, when it was red and a confirmation run was made."""

    verdict: model.Verdict
    judgements: tuple[model.Judgement, ...]


@strict
class MetricEntry:
    """`value`: Hodges-Lehmann centre of the rounds, of faults their median; for latencies the percentile of all rounds'
    histograms added up."""

    value: float | None
    unit: str
    better: Literal["higher", "lower"]
    rounds: Numbers
    spread: float | None


@strict
class AccountingEntry:
    """Summed over the rounds: attempted = acked + failed + unresolved + withdrawn, offset_delta = acked + markers, or
    INVALID; of a load that `times_out` offset_delta = acked + any number of the records that did."""

    attempted: Count
    acked: Count
    failed: Count
    unresolved: Count
    withdrawn: Count
    markers: Count = 0
    offset_delta: int
    failed_by_code: Mapping[str, Count]


@strict
class ScenarioEntry(Recorded):
    """A scenario: what it declares, what was measured, what was judged."""

    family: str
    verdict: model.Verdict | None
    """Null: measured, but the run ended before it was judged."""
    reasons: Strings
    judgements: tuple[model.Judgement, ...]
    metrics: Annotated[
        Mapping[str, MetricEntry], Field(json_schema_extra={"propertyNames": {"pattern": f"^({METRIC_NAME})$"}})
    ]
    accounting: AccountingEntry
    generator: Annotated[Mapping[GeneratorFigure, float | None], _with(*get_args(GeneratorFigure)[:-1])]
    """The extremes over the rounds; null where nothing was measured."""
    reading: model.Reading | None
    """What the consumers were given, summed over the rounds; null: no consumers."""
    first_look: FirstLook | None
    published: tuple[model.Published, ...] = ()
    """What was published of it, on other hardware: beside what was measured, never judged."""
    more_hosts: model.MoreHosts | None = None
    """What one load host more made of it (--confirm-with-more-hosts); null: that was not measured, or not judged."""


@strict
class BaselineEntry(ScenarioEntry):
    """A scenario that was measured once more, beside those of another family."""

    beside: str


@strict
class RelationEntry:
    """A relation and its verdict. `rounds`: the ratio in each; `paired`: both scenarios shared cluster and rounds."""

    name: str
    family: str
    claim: str
    metric: str
    of: str
    over: str
    at_least: Annotated[float, Gt(0)]
    at_most: Annotated[float | None, Gt(0)] = None
    """Missing in runs of before 2026-11-22."""
    valid: model.Validity
    verdict: model.Verdict
    reasons: Strings
    first_look: FirstLook | None
    ratio: float | None
    interval: tuple[float, float] | None
    spread: float | None
    rounds: Numbers
    paired: bool = True


@strict
class RangeStepEntry:
    """One ratio of a range's shape, judged like a relation of two scenarios."""

    of: str
    over: str
    at_least: Annotated[float, Gt(0)]
    at_most: Annotated[float, Gt(0)]
    verdict: model.Verdict
    reasons: Strings
    ratio: float | None
    interval: tuple[float, float] | None
    spread: float | None
    rounds: Numbers
    paired: bool = True


@strict
class RangeEntry:
    """A relation over a range and its verdict. `leg`, `flat`: the scenarios that it was held on, in their order."""

    name: str
    family: str
    claim: str
    metric: str
    goes: Literal["rises", "falls"] | None
    leg: Strings
    flat: Strings
    valid: model.Validity
    verdict: model.Verdict
    reasons: Strings
    first_look: FirstLook | None
    steps: tuple[RangeStepEntry, ...]


@strict
class EffectEntry:
    """What the change does to another metric, as :class:`MetricEffect` has it."""

    metric: str
    estimate: Share
    interval: tuple[Share, Share]
    p_value: Annotated[float, Ge(0), Le(1)]
    notable: bool
    worse: bool
    verdict: model.Effect | None = None
    """By this metric alone, where the run was asked to decide by it."""


@strict
class RecordedComparison:
    """What is read back of a comparison's entry besides its sides; see :class:`Comparison`."""

    change: str
    method: Literal["turns", "rounds", "pairs", "epochs"]
    """`epochs` stands in older runs: fresh clusters, one at a time."""
    rounds_per_unit: Annotated[int, Ge(1)]
    planned_units: Annotated[int, Ge(1)]
    orders: tuple[Annotated[str, Field(pattern="^[AB]+( [AB]+)*$")], ...]
    minutes: Amount
    decides: model.Deciding = model.AS_USUAL
    """Absent in older runs, as `two_clusters`."""
    two_clusters: bool = False
    recorded: tuple[model.RecordedPairs, ...] = ()
    """A/A pairs that told of the scatter between pairs too; absent in older runs."""
    former_plans: tuple[Annotated[int, Ge(1)], ...] = ()
    """Absent in older runs."""


@strict
class ComparisonEntry(RecordedComparison):
    """A comparison: what was found (:class:`ComparisonOutcome`), and all that it was found from."""

    scenario: str
    metric: str | None
    """The one that decides; null: none was judged."""
    verdict: model.Effect
    estimate: float | None
    interval: tuple[Share, Share] | None
    """95 %, valid at every look."""
    pairs: Count
    units: Count
    detectable: float | None
    more_minutes: float | None
    scatter: str = ""
    """What the scatter between pairs of clusters rests on besides those measured; absent in older runs."""
    unit_effects: tuple[Share, ...]
    reasons: Strings
    others: tuple[EffectEntry, ...]
    baseline: ScenarioEntry
    candidate: ScenarioEntry


@strict
class ReferenceEntry(RecordedComparison):
    """How a scenario was measured beside the reference, and all that was measured of that."""

    scenario: str
    measured: ScenarioEntry
    """Of the reference: its rounds have the numbers of the scenario's own that they were taken in turns with."""


@strict
class NotRun:
    """What was selected and not run, and why."""

    name: str
    reason: Annotated[str, MinLen(1)]


@strict
class Time:
    """Where the time of the run went; `measured_share`: of it, windows that were judged."""

    total_s: Amount
    measured_share: Annotated[float, Ge(0), Le(1)]
    phases_s: Mapping[str, float]


@strict
class RunFacts:
    """What run.json says of the run as a whole."""

    run_id: Annotated[str, Field(pattern="^[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}$")]
    started: str
    """ISO 8601, UTC, as `finished`."""
    finished: str
    tier: Annotated[Mapping[str, object], _stated(model.Tier)]
    driver: Annotated[str, _stated(Literal["librdkafka", "java", "libpulsar", "pulsar-perf"])]
    modified: Strings
    """The overrides of this run (--set); not empty: not comparable."""
    profile: str | None
    """The thresholds it was held against; null: none matched."""
    profile_note: str = ""
    """In what the run differs from them, or why it was held against none."""
    replay_of: str | None
    """The run whose measurements were judged again; null: measured live."""
    resumed_from: str | None = None
    """The interrupted run that this one continues, and whose measurements are among these."""
    change: Mapping[str, object] | None
    """What a comparison asked about; null: the gate."""
    reference: Mapping[str, object] | None = None
    """What the run was held against, measured in turns with it: how that differs; null: stored thresholds."""
    target: Annotated[Mapping[str, object], _of_target()]
    environment: Annotated[Mapping[str, object], _with(*MACHINE)]
    time: Annotated[Mapping[str, object], _stated(Time)]
    left_behind: Strings = ()
    """What could not be put back on real brokers, as what a person has to do."""
    owed: Mapping[str, str] = field(default_factory=dict)
    """What the named profile holds and the cluster, as it was, kept from being judged, with the reason; by scenario."""
    unfinished: str = ""
    """Why the run that was judged again, or one that it judged again, is no ground for a decision; empty: it is."""
    exit_code: int
    """0 green, 1 red, 2 interrupted, 3 not recorded in full, 6 undecided, 7 something was left behind on real brokers,
    8 they became unhealthy."""
    cause: str = ""
    """Why the run ended so, where no verdict of a scenario or relation says it."""
    undecided: str = ""
    """What the exit code was to make of undecided scenarios (--undecided); empty: 6."""
    undecided_in_a_row: Mapping[str, Count] = field(default_factory=dict)
    """In how many runs in a row, this one included, each undecided scenario or relation was undecided."""


@strict
class Document(RunFacts):
    """run.json: what a run of the performance gate measured and judged. JSON has no infinite figure: one that
    would be is null, as is an interval with such an end."""

    schema: Literal[7]
    scenarios: tuple[ScenarioEntry, ...]
    relations: tuple[RelationEntry, ...]
    ranges: tuple[RangeEntry, ...] = ()
    second_looks: tuple[ScenarioEntry, ...]
    """Confirmation runs: scenarios that were red, measured again on a fresh cluster."""
    baselines: tuple[BaselineEntry, ...] = ()
    comparisons: tuple[ComparisonEntry, ...]
    references: tuple[ReferenceEntry, ...] = ()
    not_run: tuple[NotRun, ...]
