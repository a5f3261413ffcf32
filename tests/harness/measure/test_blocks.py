"""Blocks: whole families together, within three minutes a round, and baselines measured where they are needed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.catalogue.kafka import SCENARIOS
from perfgate.judge.bounds_files import load_relations
from perfgate.measure.plan import BLOCK_ROUND_S, blocks
from perfgate.model import ClusterSpec, FaultScenario, Scenario
from perfgate.model.usual import TIERS
from tests.harness.build import scenario
from tests.harness.run_gate import ROOT

ROWS = st.lists(
    st.tuples(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=3, unique=True), st.integers(1, 2)),
    max_size=40,
)


def made(drawn: list[tuple[list[str], int]]) -> list[Scenario]:
    return [
        replace(scenario(f"row-{n}", tuple(families)), cluster=ClusterSpec(brokers=brokers))
        for n, (families, brokers) in enumerate(drawn)
    ]


@given(ROWS, st.sampled_from(list(TIERS.values())))
def test_every_family_of_a_cluster_is_whole_in_one_block(drawn: list[tuple[list[str], int]], tier: object) -> None:
    rows = made(drawn)
    found = blocks(rows, tier)  # type: ignore[arg-type]
    assert {row for block in found for row in block} == set(rows)
    for block in found:
        assert len({row.cluster for row in block}) == 1
        assert len(set(block)) == len(block)
    for family, cluster in {(family, row.cluster) for row in rows for family in row.families}:
        members = {row for row in rows if family in row.families and row.cluster == cluster}
        assert any(members <= set(block) for block in found)


@given(ROWS)
def test_a_round_lasts_three_minutes_unless_one_family_takes_longer(drawn: list[tuple[list[str], int]]) -> None:
    tier = TIERS["full"]
    rows = made(drawn)
    each = tier.warmup_max_s + tier.window_s
    for block in blocks(rows, tier):
        whole = any(set(block) <= {row for row in rows if family in row.families} for family in "abcdef")
        assert whole or len(block) * each <= BLOCK_ROUND_S


@pytest.mark.parametrize("tier", TIERS)
def test_the_catalogue_measures_every_relation_within_one_block(tier: str) -> None:
    relations = load_relations(ROOT / "perfgate" / "catalogue" / "relations.toml")
    rows = [
        replace(
            row,
            families=(*row.families, *(r.family for r in relations if row.name in r.names)),
        )
        for row in SCENARIOS
    ]
    found = blocks(rows, TIERS[tier])
    by_name = {row.name: row for row in rows}
    for relation in relations:
        related = {by_name[name] for name in relation.names}
        if len({row.cluster for row in related}) == 1:
            assert any(related <= set(block) for block in found), relation.name


def test_a_shared_baseline_is_measured_in_each_block() -> None:
    each = TIERS["nightly"].warmup_max_s + TIERS["nightly"].window_s
    many = int(BLOCK_ROUND_S / each)
    base = scenario("base", ("a", "b"))
    rows = [base, *(scenario(f"{family}-{n}", (family,)) for family in "ab" for n in range(many - 1))]
    found = blocks(rows, TIERS["nightly"])
    assert [len(block) for block in found] == [many, many]
    assert all(base in block for block in found)


@pytest.mark.parametrize("tier", TIERS)
def test_a_fault_is_done_once_whatever_families_it_belongs_to(tier: str) -> None:
    """Rows with a slow follower belong to min-insync too: the nightly would have slowed it twice, in two blocks."""
    found = [row.name for block in blocks(SCENARIOS, TIERS[tier]) for row in block if isinstance(row, FaultScenario)]
    assert len(found) == len(set(found))
