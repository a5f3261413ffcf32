"""Usage of brokers over windows of unequal length: which readings count, and which say nothing."""

from collections.abc import Mapping, Sequence

import pytest

from perfgate.metrics.usage import CounterSampler, Settled, Usage, UsageWatch, broker_metrics, compile_shares, of_looks
from perfgate.model import MIB
from perfgate.model.errors import TargetError

Looks = dict[int, Usage]


def usage(at: float, cpu_s: float = 0.0, rss: float = 1.0, written: float | None = 0.0, **more: object) -> Usage:
    whole = {"at": at, "cpu_s": cpu_s, "rss_bytes": int(rss * MIB)}
    bytes_ = None if written is None else int(written * MIB)
    return Usage(**whole, written_bytes=bytes_, **more)  # type: ignore[arg-type]  # the tests name what they need


def sampled(*looks: Looks, elsewhere: bool = False, edges: Sequence[float] = ()) -> CounterSampler:
    """Return a sampler that has read these looks, one at each edge (at the moments `edges`)."""
    told = iter(looks)
    sampler = CounterSampler(lambda: next(told), looks[0], why_missing="-", elsewhere=elsewhere)
    for at in range(len(looks)):
        sampler.edge(edges[at] if edges else None)
    return sampler


TURNS = (
    {1: usage(0.0, 10.0, 100, 5), 2: usage(0.5, 1.0, 900, 0)},
    {1: usage(2.0, 11.0, 200, 7), 2: usage(2.5, 1.0, 50, 0)},
    {1: usage(10.0, 30.0, 300, 50), 2: usage(10.5, 9.0, 40, 80)},
    {1: usage(16.0, 33.0, 400, 53), 2: usage(16.5, 12.0, 60, 86)},
)
"""Two windows of 2 and 6 s, 8 s apart."""


def test_two_windows_of_unequal_length_are_one_and_what_lies_between_counts_nothing() -> None:
    metrics = sampled(*TURNS).metrics(1000.0, [0, 1])
    assert metrics["broker_cpu_cores.1"] == pytest.approx(4.0 / 8.0)
    assert metrics["broker_cpu_cores.2"] == pytest.approx(3.0 / 8.0)
    assert metrics["broker_cpu_cores.max"] == pytest.approx(0.5)
    assert metrics["broker_cpu_cores.sum"] == pytest.approx(0.875)
    assert metrics["broker_cpu_us_per_record"] == pytest.approx(875.0)
    assert metrics["broker_disk_write_mib_per_s"] == pytest.approx(5.0 / 8.0 + 6.0 / 8.0)


def test_memory_is_that_of_the_last_windows_last_edge() -> None:
    sampler = sampled(*TURNS)
    both, first, last = (sampler.metrics(1.0, windows) for windows in ([0, 1], [0], [-1]))
    assert (both["broker_rss_mib.max"], both["broker_rss_mib.sum"]) == (400, 460)
    assert (last["broker_rss_mib.max"], last["broker_rss_mib.sum"]) == (400, 460)
    assert (first["broker_rss_mib.max"], first["broker_rss_mib.sum"]) == (200, 250)


def test_one_window_is_of_its_own_edges() -> None:
    sampler = sampled(*TURNS)
    assert sampler.metrics(1.0, [0])["broker_cpu_cores.1"] == pytest.approx(0.5)
    assert sampler.metrics(1.0, [1])["broker_cpu_cores.1"] == pytest.approx(0.5)
    assert sampler.metrics(1.0, [1])["broker_disk_write_mib_per_s"] == pytest.approx(1.5)
    assert sampler.metrics(1.0, [0])["broker_disk_write_mib_per_s"] == pytest.approx(1.0)


@pytest.mark.parametrize(("edge", "broker"), [(edge, broker) for edge in range(4) for broker in (1, 2)])
def test_one_look_that_does_not_tell_of_the_disk_leaves_it_unknown(edge: int, broker: int) -> None:
    looks = [dict(look) for look in TURNS]
    looks[edge][broker] = usage(looks[edge][broker].at, written=None)
    assert "broker_disk_write_mib_per_s" not in sampled(*looks).metrics(1.0, [0, 1])


def test_a_cost_of_no_record_is_none() -> None:
    assert "broker_cpu_us_per_record" not in sampled(*TURNS).metrics(0.0, [0])
    assert sampled(*TURNS).metrics(0.5, [0])["broker_cpu_us_per_record"] == pytest.approx(1e6)


def test_a_broker_that_is_gone_at_an_edge_is_an_error_that_names_it() -> None:
    told = iter([{2: usage(0.0)}])
    with pytest.raises(TargetError, match="broker 1 was gone"):
        CounterSampler(lambda: next(told), [1, 2], why_missing="-").edge()


@pytest.mark.parametrize(
    ("late_s", "window_s", "told"), [(0.29, 2.0, True), (0.31, 2.0, False), (0.49, 5.0, True), (0.51, 5.0, False)]
)
@pytest.mark.parametrize("edge", range(4))
def test_counters_of_elsewhere_may_come_late_by_a_tenth_of_the_shortest_window(
    late_s: float, window_s: float, told: bool, edge: int
) -> None:
    """And by 0.3 s whatever that is: of either edge, of any broker, of any window."""
    edges = (0.0, window_s, 20.0, 40.0)
    looks = [{1: usage(at), 2: usage(at + (late_s if n == edge else 0.0))} for n, at in enumerate(edges)]
    sampler = sampled(*looks, elsewhere=True, edges=edges)
    assert bool(sampler.metrics(1.0, [0, 1])) is told
    assert bool(sampler.unavailable) is not told
    here = sampled(*looks, edges=edges)
    assert here.metrics(1.0, [0, 1]), "of this machine they are those of the edge"
    assert not here.unavailable


def compiling(at: float, cpu_s: float, threads: Mapping[int, float] | None) -> Looks:
    return {1: usage(at, cpu_s, compiling_s=threads)}


@pytest.mark.parametrize(
    ("used", "compiled", "shares"),
    [
        (4.0, 2.0, {1: 0.5}),
        (4.0, 0.31, {1: 0.0775}),
        (4.0, 0.29, {1: 0.0}),
        (0.51, 0.31, {1: 0.31 / 0.51}),
        (0.49, 0.31, {}),
        (1.0, 1.5, {1: 1.0}),
    ],
)
def test_a_share_of_next_to_nothing_is_none(used: float, compiled: float, shares: dict[int, float]) -> None:
    """In 10 s: 0.05 cores are the least that says something, 0.03 of compiling count as none."""
    found = compile_shares((compiling(0.0, 7.0, {5: 1.0}), compiling(10.0, 7.0 + used, {5: 1.0 + compiled})))
    assert found == pytest.approx(shares)


def test_threads_that_come_count_from_their_start_and_those_that_go_take_nothing_away() -> None:
    before, after = compiling(0.0, 0.0, {5: 3.0, 6: 9.0}), compiling(2.0, 2.0, {5: 3.5, 7: 0.5})
    assert compile_shares((before, after)) == {1: 0.5}
    restarted = compiling(2.0, 2.0, {5: 0.5})
    assert compile_shares((before, restarted)) == {1: 0.0}, "the same number, another thread"


def test_windows_in_which_it_is_not_known_are_left_out_of_the_share() -> None:
    known = compiling(0.0, 0.0, {5: 0.0}), compiling(2.0, 2.0, {5: 1.0})
    unknown = compiling(4.0, 2.0, None), compiling(6.0, 8.0, {5: 1.0})
    assert compile_shares(known, unknown) == {1: 0.5}
    assert compile_shares(unknown) == {}
    assert compile_shares(known, (compiling(4.0, 2.0, {5: 1.0}), compiling(6.0, 8.0, {5: 1.0}))) == {1: 0.125}
    assert broker_metrics([known], 1.0)["broker_compile_share.max"] == 0.5


@pytest.mark.parametrize(("compiled", "settled"), [(0.05, True), (0.06, False)])
def test_brokers_have_settled_when_the_last_half_second_showed_little_compiling(compiled: float, settled: bool) -> None:
    looks = iter([compiling(0.0, 0.0, {5: 0.0}), compiling(0.5, 0.5, {5: compiled}), compiling(1.0, 1.0, {5: 9.0})])
    now = [0.0]
    found = Settled(lambda: next(looks), 0.1, lambda: now[0])
    assert not found(), "one look tells nothing"
    now[0] = 0.4999
    assert not found(), "nor does it look again so soon"
    now[0] = 0.5
    assert found() is settled
    now[0] = 0.9
    assert found() is settled
    now[0] = 1.0
    assert not found()


def test_where_it_cannot_be_told_brokers_are_taken_to_have_settled() -> None:
    assert Settled(lambda: compiling(0.0, 0.0, None), 0.1, lambda: 0.0)()


def test_a_watch_without_a_source_knows_nothing_and_one_that_fails_says_so() -> None:
    with UsageWatch(None) as watch:
        pass
    assert (watch.cpu, watch.memory) == ([], [])

    def fails() -> Looks:
        raise OSError("gone")

    with (
        pytest.raises(TargetError, match="could not be read to the end: gone"),
        UsageWatch(fails, every_s=0.001) as watch,
    ):
        watch._thread.join()

    def fails_otherwise() -> None:
        with UsageWatch(fails, every_s=0.001) as other:
            other._thread.join()
            raise ValueError("another")

    with pytest.raises(ValueError, match="another"):
        fails_otherwise()


def test_looks_that_are_too_close_to_the_last_that_counts_are_left_out() -> None:
    """Every 0.3 s: half a second apart are 0.6 and 1.2 s; 1.8 is too near to the end."""
    looks = [{1: usage(at, at / 2)} for at in (0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.0)]
    assert of_looks(looks) == {"1": ((0.6, 0.5), (1.2, 0.5), (2.0, 0.5))}


def test_roles_are_reported_beside_the_sum_of_all_nodes() -> None:
    """Pulsar's messages cost its bookies and its metadata store as well: a sum without them would hide what moves."""
    looks: tuple[Looks, ...] = (
        {
            1: usage(0.0, 0.0, 100, 0),
            2: usage(0.0, 0.0, 200, 0),
            11: usage(0.0, 0.0, 300, 0),
            21: usage(0.0, 0.0, 50, 0),
        },
        {
            1: usage(2.0, 1.0, 110, 0),
            2: usage(2.0, 2.0, 210, 0),
            11: usage(2.0, 4.0, 330, 8),
            21: usage(2.0, 0.2, 60, 1),
        },
    )
    roles = {1: "brokers", 2: "brokers", 11: "bookies", 21: "metadata"}
    told = iter(looks)
    sampler = CounterSampler(lambda: next(told), looks[0], why_missing="-", role_of=roles.__getitem__)
    sampler.edge()
    sampler.edge()
    metrics = sampler.metrics(1000.0, [0])
    for name, of_roles in {
        "broker_cpu_cores": {"brokers": 1.5, "bookies": 2.0, "metadata": 0.1},
        "broker_rss_mib": {"brokers": 320.0, "bookies": 330.0, "metadata": 60.0},
        "broker_disk_write_mib_per_s": {"brokers": 0.0, "bookies": 4.0, "metadata": 0.5},
    }.items():
        whole = metrics[name if name.endswith("per_s") else f"{name}.sum"]
        assert {role: metrics[f"{name}.{role}"] for role in of_roles} == pytest.approx(of_roles)
        assert whole == pytest.approx(sum(of_roles.values()))
    assert metrics["broker_cpu_cores.max"] == pytest.approx(2.0), "the busiest node, of whichever role"
    assert metrics["broker_cpu_us_per_record"] == pytest.approx(3600.0)
    assert not [name for name in metrics if name.startswith("broker_network")], "nothing told of the network"
    assert not [name for name in sampled(*TURNS).metrics(1.0, [0]) if name.endswith("brokers")]
