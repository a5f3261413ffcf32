"""The words of the suite as types: everything may import this package, it imports nothing of the suite.

Specifications and results convert to and from JSON in :mod:`perfgate.report.results`.
"""

from perfgate.model.changes import (
    Change as Change,
    changed as changed,
    with_changes as with_changes,
)
from perfgate.model.compared import (
    AS_USUAL as AS_USUAL,
    Comparison as Comparison,
    Deciding as Deciding,
    RecordedPairs as RecordedPairs,
)
from perfgate.model.declared import (
    CROSS_ZONE as CROSS_ZONE,
    KEY_BYTES as KEY_BYTES,
    KIB as KIB,
    MIB as MIB,
    SAME_ZONE as SAME_ZONE,
    TIER_NAMES as TIER_NAMES,
    ClusterSpec as ClusterSpec,
    Consumers as Consumers,
    Crowd as Crowd,
    Keys as Keys,
    Link as Link,
    Part as Part,
    Payload as Payload,
    Scenario as Scenario,
    Settings as Settings,
    Tier as Tier,
    TopicSpec as TopicSpec,
    settings as settings,
    with_settings as with_settings,
)
from perfgate.model.faults import (
    NEGLIGIBLE_GAP_S as NEGLIGIBLE_GAP_S,
    FAULTS as FAULTS,
    Fault as Fault,
    FaultScenario as FaultScenario,
    parted as parted,
    record_lock_s as record_lock_s,
)
from perfgate.model.loads import Load as Load
from perfgate.model.judged import (
    ComparisonOutcome as ComparisonOutcome,
    Effect as Effect,
    Judgement as Judgement,
    MetricEffect as MetricEffect,
    MoreHosts as MoreHosts,
    Outcome as Outcome,
    Profile as Profile,
    Published as Published,
    Ratio as Ratio,
    Threshold as Threshold,
    Verdict as Verdict,
)
from perfgate.model.measured import (
    FEWEST_READINGS as FEWEST_READINGS,
    NO_USAGE as NO_USAGE,
    Accounting as Accounting,
    CanaryReading as CanaryReading,
    Failover as Failover,
    GeneratorReport as GeneratorReport,
    HostReport as HostReport,
    MachineUse as MachineUse,
    Measurement as Measurement,
    PartFigures as PartFigures,
    PartitionFigures as PartitionFigures,
    Reading as Reading,
    Round as Round,
    ShapeFigures as ShapeFigures,
    Step as Step,
    StepPart as StepPart,
    TopicFigures as TopicFigures,
)
from perfgate.model.metrics import (
    COMPILING as COMPILING,
    DECIDES_PACED as DECIDES_PACED,
    LATENCY_QUANTILES as LATENCY_QUANTILES,
    METRICS as METRICS,
    PER_BROKER_METRICS as PER_BROKER_METRICS,
    MetricInfo as MetricInfo,
    metric_info as metric_info,
)
from perfgate.model.relations import (
    PairRelation as PairRelation,
    RangeRelation as RangeRelation,
    Relation as Relation,
    Validity as Validity,
)
from perfgate.model.sizes import Sizes as Sizes
from perfgate.model.system import (
    DEFAULT_KAFKA_VERSION as DEFAULT_KAFKA_VERSION,
    DEFAULT_PULSAR_VERSION as DEFAULT_PULSAR_VERSION,
    SYSTEM_NAMES as SYSTEM_NAMES,
    System as System,
    system_of as system_of,
    version_of as version_of,
)
