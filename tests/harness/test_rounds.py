"""What a block of rows does with its topics, without brokers."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fixtures import stand
from fixtures.ledger import Ledger
from fixtures.load.librdkafka import LibrdkafkaDriver
from fixtures.load.protocol import LoadError, Observer
from fixtures.metrics.process import process_sampler
from fixtures.model import Consumers, Load, Scenario, Tier
from fixtures.target.topics import Topics
from tests.harness.build import scenario
from tests.harness.live_load import row

BACKLOG: Scenario = row(scenario(), load=Load(kind="backlog", records=10), consumers=Consumers(membership="assigned"))
TIER = Tier(name="smoke", rounds=2, window_s=1, warmup_max_s=1, broker_warmup_s=1)
OBSERVER = Observer(edge=lambda: None, check=lambda: None, progress=lambda phase, last: None, written=lambda: 0)


class Cluster:
    """Stands where a cluster would be asked for its addresses."""

    def bootstrap(self, _link: object) -> str:
        return "127.0.0.1:1"

    def client_settings(self) -> tuple[()]:
        return ()

    def topics(self) -> Topics:
        cluster: Any = self
        return Topics(cluster)


def test_a_backlog_that_was_written_in_part_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[str] = []
    deleted: list[str] = []
    outcomes: list[Exception | None] = [LoadError("only 4 of 10"), None]
    monkeypatch.setattr(Topics, "create", lambda _self, name, _spec: created.append(name))
    monkeypatch.setattr(Topics, "delete", lambda _self, name: deleted.append(name))

    def fill(_spec: object, _observer: object) -> None:
        if error := outcomes.pop(0):
            raise error

    monkeypatch.setattr(stand, "fill", fill)
    cluster: Any = Cluster()
    say: Any = lambda text, left_s: None  # noqa: E731 - Say has a second method, which is not called
    block = stand.Stand(cluster, LibrdkafkaDriver(), lambda: process_sampler(dict), tier=TIER, run_id="r", say=say,
                        histories=Path("none"), ledger=Ledger())  # fmt: skip
    with suppress(LoadError):
        block._backlog(BACKLOG, OBSERVER)
    assert deleted == created[:1]
    assert block._backlog(BACKLOG, OBSERVER) == block._backlog(BACKLOG, OBSERVER) == created[1]
    assert (len(created), len(deleted)) == (2, 1)
