"""The metrics: what a name stands for."""

import pytest

from perfgate.model import metric_info


@pytest.mark.parametrize("name", ["records_per_s", "broker_cpu_cores.max", "broker_cpu_cores.2"])
def test_a_metric_is_called_what_it_was_asked_for(name: str) -> None:
    """The CPU of broker 2 was looked for as `broker_cpu_cores`, which no round has: INVALID in every run."""
    info = metric_info(name)
    assert info is not None
    assert info.name == name


@pytest.mark.parametrize("name", ["broker_cpu_cores", "records_per_s.2", "nothing", "nothing.2"])
def test_what_is_no_metric_is_none(name: str) -> None:
    assert metric_info(name) is None
