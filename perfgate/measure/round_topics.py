"""Topics of a bench: a fresh one for every round, those that hold backlogs, and those that brokers must refuse."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from perfgate.measure.assembly import unmeasured
from perfgate.model import Round, Scenario
from perfgate.model.errors import TargetError, TopicRefusedError
from perfgate.model.load import LoadError, LoadResult
from perfgate.model.target import PREFIX, TopicKeeper

REPLICATED_WITHIN_S, LOOK_AGAIN_S = 30.0, 0.2
"""A follower that is further behind than this is out of sync by Kafka's default (replica.lag.time.max.ms)."""


class RoundTopics:
    """Makes the topics of a bench, and reads how far they are written."""

    def __init__(self, keeper: TopicKeeper, run_id: str, prefix: str = PREFIX) -> None:
        """`prefix` and `run_id` begin the name of every topic."""
        self.keeper = keeper
        self._begins = f"{prefix}{run_id}"
        self.made = 0
        self._backlogs: dict[str, tuple[str, int]] = {}

    def fresh(
        self, scenario: Scenario, progress: Callable[[str], None] = lambda _: None, *, keep: bool = False
    ) -> FreshTopic:
        """Topics for the length of one round; with `keep` they stay when all went well."""
        self.made += 1
        name = f"{self._begins}-{self.made:03d}-{scenario.name}"
        return FreshTopic(self.keeper, name, scenario, progress, keep=keep)

    def backlog(self, scenario: Scenario, fill: Callable[[str], None], progress: Callable[[str], None]) -> str:
        """The topics with the scenario's backlog, which `fill` writes on first use."""
        if scenario.name not in self._backlogs:
            with self.fresh(scenario, progress, keep=True) as topic:  # a backlog written in part is not kept
                fill(topic)
            self._backlogs[scenario.name] = topic, scenario.topic.count
        return self._backlogs[scenario.name][0]

    def delete_backlogs(self) -> None:
        """Delete the topics that backlogs were written to."""
        while self._backlogs:
            self.keeper.delete(*self._backlogs.popitem()[1])

    def ends(self, topic: str, scenario: Scenario) -> Sequence[int]:
        """Every partition's end offset now."""
        return self.keeper.end_offsets(topic, scenario.topic.partitions, scenario.topic.count)

    def ends_after(self, topic: str, scenario: Scenario, before: Sequence[int], result: LoadResult) -> Sequence[int]:
        """The topic's end offsets once all that was acknowledged is in them, or after REPLICATED_WITHIN_S.

        An end offset is what all replicas have (the high watermark); with acks=1 what only the leader has is
        acknowledged too. A commit is answered before its markers are written.
        """
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
        """The broker that leads each partition now; empty where no figures of partitions are known, or no answer comes.

        What was measured is sound without it.
        """
        if result.sent is None or not result.sent.latency_by_partition:
            return ()
        try:
            return self.keeper.leaders(topic, count)
        except TargetError:
            return ()


class FreshTopic:
    """Topics for the length of one round; with `keep` they stay when all went well. Entering gives their name."""

    def __init__(
        self,
        topics: TopicKeeper,
        name: str,
        scenario: Scenario,
        progress: Callable[[str], None] = lambda _: None,
        *,
        keep: bool = False,
    ) -> None:
        self._topics, self.name, self._spec, self._keep = topics, name, scenario.topic, keep
        self._progress = progress

    def __enter__(self) -> str:
        self._topics.create(self.name, self._spec, self._progress)
        return self.name

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # On an unhealthy target, or when the person pressed Ctrl-C, the cluster goes away as a whole.
        if (kind is None and not self._keep) or (kind is not None and issubclass(kind, LoadError)):
            self._topics.delete(self.name, self._spec.count, self._progress)


def refusal_round(topics: RoundTopics, scenario: Scenario, index: int, *, own_brokers: bool) -> Round:
    """Ask for the scenario's topic; the round has no metrics, and is broken or invalid unless it was refused.

    It must be refused with the error that the scenario names, and must not exist afterwards. On brokers of the suite's
    own (`own_brokers`) anything else is a result: BROKEN.
    """
    wanted = topics.fresh(scenario)
    try:
        with wanted:
            problem = f"the brokers created its topic, which they must refuse with {scenario.refusal}"
    except TopicRefusedError as error:
        problem = ""
        if error.code != scenario.refusal:
            problem = f"its topic was to be refused with {scenario.refusal}, but: {error}"
    if not problem and topics.keeper.exists(wanted.name):
        problem = f"the brokers refused topic {wanted.name}, and yet it is there"
    found = unmeasured(index, problem, broken=own_brokers)
    return found if problem else replace(found, steady=True, flaws=())
