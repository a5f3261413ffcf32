"""The figures that benchmarks/hosts.py derives: ratios of interleaved rounds, lines over hosts, hosts for a rate."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.hosts import RESULTS
from benchmarks.hosts_figures import BUSY, LEADING, Costs, hosts_needed, led, ratios, tables
from benchmarks.idle_generator import IdleClient
from perfgate.load.engine import _sent
from perfgate.load.schedule import Window


def costs(rate: float, us: float, run: float, agent: float) -> Costs:
    return Costs(
        records_per_s=rate,
        generator_us_per_record=us,
        generator_cores=rate * us / 1e6,
        run_cores=run,
        agent_cores=agent,
        p99_ms=5.0,
    )


def test_ratios_are_of_the_rounds_that_stood_side_by_side() -> None:
    """The machine was half as fast in the second round: the ratio of the medians would see a cost."""
    local = [costs(100_000, 4, 0.01, 0), costs(50_000, 8, 0.01, 0), costs(100_000, 4, 0.01, 0)]
    hosts = [costs(99_000, 4.04, 0.02, 0.01), costs(49_500, 8.08, 0.02, 0.01), costs(99_000, 4.04, 0.02, 0.01)]
    found = ratios({"a": local, "b": hosts}, "a", "b")
    assert found["records_per_s"]["ratio"] == pytest.approx(0.99)
    assert found["generator_us_per_record"]["ratio"] == pytest.approx(1.01)
    assert found["run_cores"] == pytest.approx(0.01)
    assert found["agent_cores"] == pytest.approx(0.01)
    assert found["agent_share"] == pytest.approx(0.01 / (99_000 * 4.04 / 1e6))


def test_what_more_hosts_need_is_on_the_line_through_the_measured() -> None:
    measured = [{"hosts": hosts, **dict.fromkeys(LEADING, 0.5 + 0.01 * hosts)} for hosts in (8, 32, 64)]
    assert led(measured, 100) == pytest.approx(dict.fromkeys(LEADING, 1.5))


@given(
    rate=st.floats(1, 1e8),
    record_bytes=st.integers(1, 1_000_000),
    us=st.floats(0.1, 100),
    cores=st.integers(1, 128),
    link=st.floats(0.1, 400),
)
def test_the_hosts_suffice_and_one_less_would_not(
    rate: float, record_bytes: int, us: float, cores: int, link: float
) -> None:
    hosts, bound = hosts_needed(rate, record_bytes, us, cores=cores, link_gbit_per_s=link)
    cores_used = rate * us / 1e6 / hosts / cores
    assert cores_used <= BUSY * (1 + 1e-9)
    assert rate * record_bytes * 8 / hosts <= BUSY * link * 1e9 * (1 + 1e-9)
    more, _ = hosts_needed(2 * rate, record_bytes, us, cores=cores, link_gbit_per_s=link)
    assert 2 * hosts - 1 <= more <= 2 * hosts
    if bound == "cores" and hosts > 1:
        assert rate * us / 1e6 / (hosts - 1) / cores > BUSY * (1 - 1e-9)


def test_a_generator_that_sends_nothing_gives_a_result_as_others_do() -> None:
    client = IdleClient(Window(), 1)
    sent = _sent([{**client.result(), "clients": 1}])
    assert (sent.attempted, sent.acked, sent.acked_by_partition) == (0, 0, [0])


def test_the_table_has_every_part_that_was_measured() -> None:
    text = tables(json.loads(RESULTS.read_text()))
    assert "saturating: one Dask agent beside local pipes" in text
    assert "8 hosts: began within" in text
    assert "100 hosts that send nothing: " in text
    assert "(computed)" in text
