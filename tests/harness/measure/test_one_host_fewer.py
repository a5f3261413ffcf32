"""A scenario on one load host fewer: what is left out with the host, and where there is nothing to leave out."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.load.hosts import dealt
from perfgate.measure.plan import nothing_to_confirm, one_host_fewer
from perfgate.model import Consumers, Load, Scenario
from tests.harness.build import scenario


def row(producers: int, readers: int = 0, kind: str = "capped", groups: int = 1) -> Scenario:
    consumers = Consumers(membership="group", processes=readers, groups=groups) if readers else None
    load = Load(kind="backlog", records=10) if kind == "backlog" else Load(kind="capped", rate=1e6)
    return replace(scenario(), producers=producers, consumers=consumers, load=load)


def assigned(readers: int) -> Scenario:
    """Return three producers, and consumers to whom three partitions are assigned."""
    found = row(3, readers)
    consumers = Consumers(membership="assigned", processes=readers)
    return replace(found, topic=replace(found.topic, partitions=3), consumers=consumers)


def test_consumers_that_do_not_read_what_their_host_wrote_are_no_reason() -> None:
    assert nothing_to_confirm(assigned(1), 3) == ""
    assert nothing_to_confirm(replace(assigned(3), load=Load(kind="backlog", records=10)), 3) == ""


@given(st.integers(1, 9), st.integers(0, 9), st.integers(1, 5), st.sampled_from(["capped", "backlog"]))
def test_the_last_host_that_makes_the_load_is_left_out_with_its_processes(
    producers: int, readers: int, hosts: int, kind: str
) -> None:
    """Held against how the processes of the whole scenario are dealt out."""
    whole = row(producers, readers or (kind == "backlog"), kind)
    role = "consumer" if kind == "backlog" else "producer"
    count = {"producer": 0 if kind == "backlog" else whole.producers, "consumer": 0}
    count["consumer"] = whole.consumers.processes if whole.consumers else 0
    names = [f"{kind}-{n}" for kind, many in count.items() for n in range(1, many + 1)]
    on = dealt(names, range(hosts))
    last = max(on[name] for name in names if name.startswith(role))
    found = one_host_fewer(whole, hosts)
    if last == 0:
        assert found is None
        return
    assert found is not None
    left = [name for name in names if on[name] != last]
    fewer = found.scenario
    assert fewer.producers == (whole.producers if kind == "backlog" else sum(n.startswith("producer") for n in left))
    if whole.consumers and fewer.consumers:
        assert fewer.consumers.processes == sum(name.startswith("consumer") for name in left) > 0
    assert found.hosts == len(set(on.values())) - 1
    assert replace(fewer, producers=producers, consumers=whole.consumers) == whole


def test_groups_that_read_along_stay_whole() -> None:
    found = one_host_fewer(row(3, 3, groups=2), 3)
    assert found is not None
    assert found.scenario.consumers == row(3, 3, groups=2).consumers
    assert (found.scenario.producers, found.hosts) == (2, 2)


@pytest.mark.parametrize(
    ("whole", "hosts", "words"),
    [
        (replace(row(4), load=Load(kind="paced", rate=10)), 3, "its rate is declared"),
        (replace(row(4), load=Load(kind="ramp", rate=10)), 3, "its rate is declared"),
        (row(4), 1, "its link has one load host"),
        (row(1, 4), 3, "one process makes its load, which is on one host; --set producers.processes=N spreads it"),
        (row(4, 1, "backlog"), 3, "--set consumers.processes=N spreads it"),
        (row(4, 4, "backlog", groups=2), 3, "it is read by several groups"),
        (assigned(3), 3, "which are others on one host fewer; --set consumers.processes=N"),
    ],
)
def test_where_there_is_nothing_to_leave_out_the_reason_is_told(whole: Scenario, hosts: int, words: str) -> None:
    assert words in nothing_to_confirm(whole, hosts)
    assert one_host_fewer(whole, hosts) is None
