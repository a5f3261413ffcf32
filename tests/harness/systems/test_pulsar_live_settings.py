"""Settings of living Pulsar brokers: changed, put back, and left alone where somebody else has changed them."""

from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from perfgate.model.errors import ConfigurationError, InterferedError, TargetError
from perfgate.systems.pulsar.client.admin import Admin
from perfgate.systems.pulsar.client.live_settings import LiveSettings, same_value
from tests.harness.build.clock import Clock
from tests.harness.build.pulsar_brokers import FakePulsar, served

NAME = "dispatcherMaxRoundRobinBatchSize"


@pytest.fixture
def pulsar() -> Iterator[FakePulsar]:
    with served(FakePulsar()) as found:
        yield found


def live(pulsar: FakePulsar, noted: list[tuple[object, ...]] | None = None, *, shared: bool = False) -> LiveSettings:
    notes = [] if noted is None else noted
    return LiveSettings(Admin(pulsar.urls), pulsar.urls, lambda *note: notes.append(note), shared=shared)


@pytest.mark.parametrize("before", [None, "50"])
def test_a_change_and_the_way_back_again_and_again(pulsar: FakePulsar, before: str | None) -> None:
    noted: list[tuple[object, ...]] = []
    settings = live(pulsar, noted)
    pulsar.dynamic.update({NAME: before} if before else {})
    for _ in range(3):
        assert settings.change(((NAME, "33"),)) >= 0
        assert pulsar.dynamic == {NAME: "33"}
        settings.restore()
        assert pulsar.dynamic == ({NAME: before} if before else {})
    assert noted == [(NAME, before, before or "20", "33")], "once, before the first change"


def test_brokers_whose_files_differ_have_their_own_values_again(pulsar: FakePulsar, clock: Clock) -> None:
    """The first broker's value was waited for on all of them: a setting that was put back was said not to be."""
    noted: list[tuple[object, ...]] = []
    settings, clock.times = live(pulsar, noted), 100.0
    pulsar.files[3] = {NAME: "40"}
    settings.change(((NAME, "33"),))
    settings.restore()
    assert noted == [(NAME, None, "", "33")], "there is no value for all"
    pulsar.lag[3] = {NAME: "20"}
    with pytest.raises(TargetError, match=f"broker {pulsar.urls[2]} did not take {NAME} = 40"):
        settings.restore()


def test_what_takes_effect_at_the_start_only(pulsar: FakePulsar) -> None:
    assert live(pulsar).fixed([NAME, "webServicePort"]) == ["webServicePort"]
    with pytest.raises(ConfigurationError, match=r"do not know num\.io\.threads"):
        live(pulsar).fixed(["num.io.threads"])
    settings = live(pulsar)
    with pytest.raises(ConfigurationError, match="at their start only"):
        settings.change((("webServicePort", "8081"),))
    settings.restore()
    assert not pulsar.dynamic


@pytest.mark.parametrize(
    ("now", "value", "words"),
    [
        ("20", "abc", "a whole number"),
        ("20", "1.5", "a whole number"),
        ("20", "1e2", "a whole number"),
        ("20", "1_000", "a whole number"),
        ("20", "nan", "a whole number"),
        ("20", "", "a whole number"),
        ("0.5", "nan", "a number"),
        ("1.0E-5", "half", "a number"),
        ("true", "1", "true or false"),
        ("20", "+33", ""),
        ("0.5", "1", ""),
        ("0.5", "2e-3", ""),
        ("false", "True", ""),
        ("some text", "1.5", ""),
    ],
)
def test_a_value_that_brokers_would_store_and_not_take_is_refused_before(
    pulsar: FakePulsar, now: str, value: str, words: str
) -> None:
    """1.5, or nan, of whole numbers was stored by the brokers of others, and waited for in vain."""
    pulsar.static[NAME] = now
    with pytest.raises(ConfigurationError, match=f"must be {words}, as it is now") if words else nullcontext():
        live(pulsar).change(((NAME, value),))
    assert bool(pulsar.dynamic) is not bool(words)


def test_a_broker_that_does_not_take_it(pulsar: FakePulsar, clock: Clock) -> None:
    pulsar.lag[3], clock.times = {NAME: "20"}, 100.0
    settings = live(pulsar)
    with pytest.raises(TargetError, match=f"broker {pulsar.urls[2]} did not take {NAME} = 33"):
        settings.change(((NAME, "33"),))
    settings.restore()
    assert not pulsar.dynamic


def test_what_somebody_else_has_set_is_left_alone(pulsar: FakePulsar) -> None:
    settings = live(pulsar)
    settings.change(((NAME, "33"),))
    pulsar.dynamic[NAME] = "44"
    with pytest.raises(InterferedError, match="somebody else has set"):
        settings.restore()
    with pytest.raises(InterferedError, match="left alone"):
        settings.change(((NAME, "33"),))
    assert pulsar.dynamic == {NAME: "44"}


def test_a_change_that_was_reverted_while_it_was_measured(pulsar: FakePulsar) -> None:
    settings = live(pulsar, shared=True)
    settings.change(((NAME, "33"),))
    assert settings.still(((NAME, "33"),)) > 0
    pulsar.dynamic.clear()
    with pytest.raises(InterferedError, match="somebody reverted the change"):
        settings.still(((NAME, "33"),))
    assert live(pulsar).still(((NAME, "33"),)) == 0, "brokers of the run's own have no other client"


@pytest.mark.parametrize("name", ["tlsKeyStorePassword", "brokerClientAuthenticationParameters", "tokenSecretKey"])
def test_secrets_are_neither_read_nor_changed(pulsar: FakePulsar, name: str) -> None:
    pulsar.static[name] = "hush"
    with pytest.raises(ConfigurationError, match="holds a secret") as caught:
        live(pulsar).change(((name, "x"),))
    assert "hush" not in str(caught.value)
    assert not pulsar.dynamic


def test_brokers_that_are_not_those_meant_are_not_changed(pulsar: FakePulsar) -> None:
    def another() -> None:
        raise TargetError("another cluster")

    with pytest.raises(TargetError, match="another cluster"):
        LiveSettings(Admin(pulsar.urls), pulsar.urls, require=another).change(((NAME, "33"),))
    assert not pulsar.requests


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [("0.50", "0.5", True), ("True", "true", True), ("20", "21", False), ("a", "b", False), ("", "0", False)],
)
def test_one_value_in_two_texts(one: str, other: str, same: bool) -> None:
    assert same_value(one, other) is same
