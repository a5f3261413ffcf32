"""Topics of a bench: fresh ones for every round, backlogs, topics to be refused, and topics that differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from perfgate.measure.assembly import unmeasured
from perfgate.measure.flaw import of_brokers, of_generator
from perfgate.model import Accounting, Round, Scenario, TopicFigures, TopicSpec
from perfgate.model.errors import TargetError, TopicRefusedError
from perfgate.model.flaw import Flaw
from perfgate.model.histogram import COARSE_BUCKETS, figures_of
from perfgate.model.load import LoadError, LoadResult
from perfgate.model.metrics import SLOWEST_TOPIC
from perfgate.model.target import PREFIX, TopicKeeper

REPLICATED_WITHIN_S, LOOK_AGAIN_S = 30.0, 0.2
"""A follower that is further behind than this is out of sync by Kafka's default (replica.lag.time.max.ms)."""
CHANCE = 0.01
"""Chance that any topic of a round whose topics are alike is called different, of each figure."""
FEWEST_TOPICS = 5
"""With fewer there is no scatter to hold a topic against."""
LEAST_EXPECTED = 5.0
"""Expected number of records, of those that share no fate, from which a topic's own number is about normal (Cochran,
Some methods for strengthening the common chi-squared tests, Biometrics 10, 1954)."""
MEDIAN_CHI2 = 0.4549
"""Median of a chi-squared variable with one degree of freedom: that of the square of a normal variable."""
OF_A_MEDIAN = 0.37
"""A median of squares is worth this share of them as their mean is (Rousseeuw and Croux, Alternatives to the median
absolute deviation, JASA 88, 1993)."""
Whole = npt.NDArray[np.int64]


class RoundTopics:
    """Makes the topics of a bench, and reads how far they are written."""

    def __init__(self, keeper: TopicKeeper, run_id: str, prefix: str = PREFIX) -> None:
        """`prefix` and `run_id` begin the name of every topic."""
        self.keeper = keeper
        self._begins = f"{prefix}{run_id}"
        self.created = 0
        self._backlogs: dict[str, tuple[str, int]] = {}

    def next_name(self, scenario: Scenario) -> str:
        self.created += 1
        return f"{self._begins}-{self.created:03d}-{scenario.name}"

    @contextmanager
    def fresh(
        self, scenario: Scenario, progress: Callable[[str], None] = lambda _: None, *, keep: bool = False
    ) -> Iterator[str]:
        """Topics for the length of a round; with `keep` they stay when all went well. Raises TopicRefusedError. On an
        unhealthy target, or at Ctrl-C, the cluster goes away as a whole."""
        topic, spec = self.next_name(scenario), scenario.topic
        self.keeper.create(topic, spec, progress)
        try:
            yield topic
        except (LoadError, TopicRefusedError):  # a refusal is that of another topic of the same load
            self.keeper.delete(topic, spec.count, progress)
            raise
        if not keep:
            self.keeper.delete(topic, spec.count, progress)

    def backlog(self, scenario: Scenario, fill: Callable[[str], None], progress: Callable[[str], None]) -> str:
        """The topics with the scenario's backlog, which `fill` writes on first use."""
        if scenario.name in self._backlogs:
            topic, _ = self._backlogs[scenario.name]
            self.keeper.reuse(topic, scenario.topic)
            return topic
        with self.fresh(scenario, progress, keep=True) as topic:  # a backlog written in part is not kept
            fill(topic)
        self._backlogs[scenario.name] = topic, scenario.topic.count
        return topic

    def delete_backlogs(self) -> None:
        while self._backlogs:
            self.keeper.delete(*self._backlogs.popitem()[1])

    def ends(self, topic: str, scenario: Scenario) -> Sequence[int]:
        return self.keeper.end_offsets(topic, scenario.topic.partitions, scenario.topic.count)

    def ends_after(self, topic: str, scenario: Scenario, before: Sequence[int], result: LoadResult) -> Sequence[int]:
        """The topic's end offsets once all that was acknowledged is in them, or after REPLICATED_WITHIN_S: they are
        what all replicas have, with acks=1 the leader may have more, and markers follow the answer to a commit."""
        due = sum(before)
        if result.sent:
            due += result.sent.acked + sum(result.sent.markers_by_partition)
        deadline = time.monotonic() + REPLICATED_WITHIN_S
        while True:
            ends = self.ends(topic, scenario)
            if sum(ends) >= due or time.monotonic() > deadline:
                return ends
            time.sleep(LOOK_AGAIN_S)

    def leaders(self, topic: str, result: LoadResult, count: int = 1) -> Sequence[int]:
        """The broker that leads each partition now; empty where nothing is known by partition, or no answer comes."""
        if result.sent is None or not result.sent.latency_by_partition:
            return ()
        try:
            return self.keeper.leaders(topic, count)
        except TargetError:
            return ()


def refusal_round(topics: RoundTopics, scenario: Scenario, index: int, *, own_brokers: bool) -> Round:
    """Ask for the scenario's topic, which must be refused with the error that it names, and not exist then. The round
    has no metrics; on brokers of the suite's own (`own_brokers`) anything else is BROKEN."""
    topic = topics.next_name(scenario)
    try:
        topics.keeper.create(topic, scenario.topic)
        topics.keeper.delete(topic, scenario.topic.count)
        problem = f"the brokers created its topic, which they must refuse with {scenario.refusal}"
    except TopicRefusedError as error:
        problem = ""
        if error.code != scenario.refusal:
            problem = f"its topic was to be refused with {scenario.refusal}, but: {error}"
    if not problem and topics.keeper.exists(topic):
        problem = f"the brokers refused topic {topic}, and yet it is there"
    unrefused = unmeasured(index, problem, broken=own_brokers)
    return unrefused if problem else replace(unrefused, steady=True, flaws=())


def unwritten(topic: TopicSpec, accounting: Accounting) -> tuple[Flaw, ...]:
    """The flaw of a round that left some of its several topics unwritten: of brokers where records failed or have no
    outcome, else of a load that offered none."""
    acked = [records for records, _ in accounting.partitions]
    if topic.count == 1 or len(acked) != topic.in_all or not accounting.acked:
        return ()
    by_topic = np.array(acked).reshape(topic.count, topic.partitions).sum(axis=1)
    empty = np.flatnonzero(by_topic == 0).tolist()
    if not empty:
        return ()
    which = ", ".join(f"{number:03d}" for number in empty[:5]) + (", ..." if len(empty) > 5 else "")
    reason = f"{len(empty):,} of {topic.count:,} topics were left unwritten: {which}"
    if accounting.failed_total + accounting.unresolved:
        return (of_brokers(reason, kind="unwritten"),)
    return (of_generator(reason, kind="unwritten"),)


def latency_by_topic(topic: TopicSpec, result: LoadResult) -> Whole:
    """Counts of the coarse buckets of each topic's latencies, by topic; empty where they are not known."""
    sent = result.sent
    counts = np.array((sent.latency_by_topic or sent.latency_by_partition) if sent else (), np.int64)
    if topic.count == 1 or not len(counts):
        return np.zeros((0, COARSE_BUCKETS), np.int64)
    by_topic: Whole = counts.reshape(topic.count, -1, COARSE_BUCKETS).sum(axis=1)
    return by_topic


def slowest(by_topic: Whole) -> dict[str, float]:
    """The p99 of the topic that has the highest, as a metric; empty where none is known."""
    known = [p99_ms for records, p99_ms in figures_of(by_topic.ravel().tolist()) if records]
    return {f"{SLOWEST_TOPIC}.p99": max(known)} if known else {}


def that_differ(by_topic: Whole, window_s: float) -> tuple[TopicFigures, ...]:
    """Topics whose rate, or p99, differs from that of the median topic by more than chance.

    The rate by the topic's number of records; the p99 by how many of them are slower than the median topic's (a
    quantile test: Conover, Practical Nonparametric Statistics, 3.2). Records of a batch share their fate, and numbers
    scatter more than single records would: the variance is multiplied by what the topics' own scatter says, as of a
    quasi-likelihood (McCullagh and Nelder, Generalized Linear Models, 4.5), from its median, so that no topic excuses
    itself. The limit is that of a t variable, with Bonferroni's share of CHANCE.
    """
    from scipy.special import stdtrit  # 0.2 s, which a scenario of one topic does not need

    records = by_topic.sum(axis=1)
    if len(by_topic) < FEWEST_TOPICS or not records.all():
        return ()
    limit = float(stdtrit(OF_A_MEDIAN * (len(by_topic) - 1), 1 - CHANCE / (2 * len(by_topic))))
    evenly = np.full(len(records), np.median(records))
    rates = _beyond(records, evenly, evenly, limit)
    within = np.cumsum(by_topic, axis=1) < 0.99 * records[:, None]
    bucket = int(np.median(within.sum(axis=1)))
    slow = by_topic[:, bucket + 1 :].sum(axis=1)
    share = float(np.median(slow / records))
    expected = records * share
    p99 = _beyond(slow, expected, expected * (1 - share), limit)
    figures = figures_of(by_topic.ravel().tolist())
    return tuple(
        TopicFigures(
            number=number,
            records_per_s=figures[number][0] / window_s,
            p99_ms=figures[number][1],
            differs=(*(("rate",) if rates[number] else ()), *(("p99",) if p99[number] else ())),
        )
        for number in np.flatnonzero(rates | p99).tolist()
    )


def _beyond(
    counts: Whole, expected: npt.NDArray[np.float64], variance: npt.NDArray[np.float64], limit: float
) -> npt.NDArray[np.bool_]:
    """Mask of the counts that are further from the expected ones than `limit` standard deviations of their scatter."""
    if not variance.all():
        return np.zeros(len(counts), np.bool_)
    squares = (counts - expected) ** 2 / variance
    scatter = max(1.0, float(np.median(squares)) / MEDIAN_CHI2)
    beyond: npt.NDArray[np.bool_] = (squares > limit**2 * scatter) & (expected >= LEAST_EXPECTED * scatter)
    return beyond
