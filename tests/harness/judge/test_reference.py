"""A run that is held against a reference: ratios, their verdicts and how often those are wrong, and their file."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.judge.bounds_files import Ratios, load_ratios
from perfgate.judge.claims.ratio import ReferenceStopRule, judge_against_reference, reference_message
from perfgate.judge.claims.same import judge_comparison
from perfgate.model import Comparison, Effect, Load, Round, Verdict
from perfgate.model.errors import ConfigurationError
from tests.harness.build import flawed
from tests.harness.build.comparisons import comparison
from tests.harness.judge.test_comparisons import with_latency_spoilt

SHIPPED = Path(__file__).parents[3] / "perfgate" / "catalogue"
NOISE = (1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.01, 0.99, 1.0, 1.0)


@pytest.fixture(scope="module")
def ratios() -> Ratios:
    return load_ratios(SHIPPED)


def verdicts(found: Comparison, held: Ratios, *, final: bool = True) -> dict[str, Verdict]:
    return {j.metric: j.verdict for j in judge_against_reference(found, held, final=final).judgements}


@pytest.mark.parametrize(
    ("factor", "cpu_us", "verdict", "of"),
    [
        (1.0, 50.0, Verdict.PASS, "records_per_s"),
        (0.97, 50.0, Verdict.PASS, "records_per_s"),
        (0.90, 50.0, Verdict.REGRESSED, "records_per_s"),
        (1.20, 50.0, Verdict.IMPROVED, "records_per_s"),
        (1.0, 60.0, Verdict.REGRESSED, "broker_cpu_us_per_record"),
        (1.0, 53.0, Verdict.PASS, "broker_cpu_us_per_record"),
        (1.0, 40.0, Verdict.IMPROVED, "broker_cpu_us_per_record"),
    ],
)
def test_more_lost_than_may_be_is_red(factor: float, cpu_us: float, verdict: Verdict, of: str, ratios: Ratios) -> None:
    found = comparison(factor, noise=NOISE, cpu_us=cpu_us)
    assert verdicts(found, ratios)[of] is verdict
    outcome = judge_against_reference(found, ratios)
    (judgement,) = (one for one in outcome.judgements if one.metric == of)
    assert judgement.baseline is not None
    assert judgement.limit == pytest.approx(judgement.baseline * (0.95 if of == "records_per_s" else 1.1))
    if verdict is Verdict.REGRESSED:
        assert outcome.verdict is Verdict.REGRESSED
        message = reference_message(outcome, found, "kafka 4.2", ratios)
        assert "the reference" in message.splitlines()[0]
        assert "kafka 4.2, measured in turns with it (2.0 min, 10 units); limits: " in message


def test_what_noise_leaves_open_is_undecided(ratios: Ratios) -> None:
    wide = (1.3, 0.7, 1.2, 0.8, 1.0, 1.1, 0.9, 1.25)
    outcome = judge_against_reference(comparison(0.97, noise=wide), ratios)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert "8 units do not tell" in str(outcome.reasons)
    few = judge_against_reference(comparison(1.0, noise=(1.0, 1.0, 1.0)), ratios)
    assert few.verdict is Verdict.INCONCLUSIVE
    assert few.reasons == ("3 unit(s) were measured; an interval and a decision need 4",)


def test_a_spoilt_latency_that_ended_it_early_is_the_reason(ratios: Ratios) -> None:
    """A broker that stood still half of the time made each burst late: "2 unit(s) were measured", give it longer."""
    early = with_latency_spoilt(comparison(1.0, noise=(1.0, 1.0, 1.0)), Load(kind="paced", rate=1000.0))
    outcome = judge_against_reference(early, ratios)
    assert outcome.verdict is Verdict.INVALID
    assert outcome.reasons == ("candidate: latency_ms.p99: round 3: sent late (1 of 3 rounds)",)
    assert "--budget" not in reference_message(outcome, early, "kafka 4.2", ratios), "more time would not help"
    capped = with_latency_spoilt(comparison(1.0, noise=(1.0, 1.0, 1.0)), Load(kind="capped", rate=1e6))
    assert judge_against_reference(capped, ratios).verdict is Verdict.INCONCLUSIVE, "its rate is what it is"


def test_a_setting_that_never_took_effect_is_not_kept(ratios: Ratios) -> None:
    """Topics are new in every round: a flush every 100,000 records was green, and had never happened."""
    found = comparison(1.0, noise=NOISE)
    cluster = replace(found.candidate.scenario.cluster, config=(("log.flush.interval.messages", "100000"),))
    row = replace(found.candidate.scenario, cluster=cluster)
    outcome = judge_against_reference(replace(found, candidate=replace(found.candidate, scenario=row)), ratios)
    assert outcome.verdict is Verdict.INCONCLUSIVE
    assert outcome.reasons[0].startswith("log.flush.interval.messages of 100,000 was never reached")
    assert "--budget" not in reference_message(outcome, found, "kafka 4.2", ratios), "more time would not help"


def changed(found: Comparison, side: str, change: Callable[[Round], Round]) -> Comparison:
    measured = getattr(found, side)
    return replace(found, **{side: replace(measured, rounds=tuple(map(change, measured.rounds)))})


@pytest.mark.parametrize(
    ("side", "verdict"), [("candidate", Verdict.BROKEN), ("baseline", Verdict.INVALID), ("both", Verdict.INVALID)]
)
def test_sends_that_fail_here_and_not_there_are_the_worst(side: str, verdict: Verdict, ratios: Ratios) -> None:
    found = comparison(1.0, noise=NOISE)
    for one in ("baseline", "candidate") if side == "both" else (side,):
        found = changed(found, one, lambda r: flawed(r, invalid=("3 sends failed",), broken=("3 sends failed",)))
    assert judge_against_reference(found, ratios).verdict is verdict


@pytest.mark.parametrize(
    ("short", "probes", "verdict"),
    [
        ("candidate", False, Verdict.REGRESSED),
        ("candidate", True, Verdict.REGRESSED),
        ("baseline", False, Verdict.INCONCLUSIVE),
        ("baseline", True, Verdict.MISSING),
    ],
)
def test_a_rate_that_is_not_taken(short: str, probes: bool, verdict: Verdict, ratios: Ratios) -> None:
    found = comparison(1.0, noise=NOISE)
    for side in ("baseline", "candidate"):
        row = replace(found.scenario, load=Load(kind="paced", rate=1000, probes=probes))
        found = replace(found, **{side: replace(getattr(found, side), scenario=row)})
    found = changed(found, short, lambda r: replace(r, not_sustained="not sustained: took 900 of 1,000"))
    outcome = judge_against_reference(found, ratios)
    assert outcome.verdict is verdict
    assert "took 900 of 1,000" in outcome.reasons[0]


@pytest.mark.parametrize("overload", [False, True])
@pytest.mark.parametrize(("compiling", "red"), [(0.02, True), (0.3, False)])
def test_what_cold_brokers_do_not_take_is_no_loss(overload: bool, compiling: float, red: bool, ratios: Ratios) -> None:
    found = comparison(0.5, noise=NOISE)
    for side in ("baseline", "candidate"):
        row = replace(found.scenario, load=Load(kind="paced", rate=1000))
        found = replace(found, **{side: replace(getattr(found, side), scenario=row)})

    def short(r: Round) -> Round:
        return replace(r, not_sustained="not sustained: took 900 of 1,000")

    def cold(r: Round) -> Round:
        return replace(r, metrics={**r.metrics, "broker_compile_share.max": compiling})

    found = changed(changed(found, "candidate", short), "candidate", cold)
    outcome = judge_against_reference(changed(found, "baseline", short) if overload else found, ratios)
    assert outcome.verdict is (Verdict.REGRESSED if red else Verdict.INCONCLUSIVE)
    assert ("still warming up" in str(outcome.reasons)) is not red


@pytest.mark.parametrize("probes", [False, True])
@pytest.mark.parametrize(("factor", "red"), [(0.1, True), (0.9, True), (1.0, False), (2.0, False)])
def test_a_candidate_that_takes_far_less_of_an_overload_is_red(
    factor: float, red: bool, probes: bool, ratios: Ratios
) -> None:
    """It was MISSING, and so green, with a tenth of what the reference took."""
    found = comparison(factor, noise=NOISE)
    for side in ("baseline", "candidate"):
        row = replace(found.scenario, load=Load(kind="paced", rate=3000, probes=probes))
        found = replace(found, **{side: replace(getattr(found, side), scenario=row)})
        found = changed(found, side, lambda r: replace(r, not_sustained="not sustained"))
    outcome = judge_against_reference(found, ratios)
    assert (outcome.verdict is Verdict.REGRESSED) is red
    assert not outcome.verdict.green
    assert outcome.reasons[0].startswith("the reference: not sustained")


def test_an_overload_that_is_not_told_apart_yet_goes_on(ratios: Ratios) -> None:
    """It ended with four units and no judgement, before three quarters of the rate were seen to be few."""
    found = comparison(0.75, noise=(1.3, 0.7, 1.2, 0.8, 1.0, 1.1, 0.9, 1.2, 0.8, 1.0))
    for side in ("baseline", "candidate"):
        row = replace(found.scenario, load=Load(kind="paced", rate=3000, probes=True))
        found = replace(found, **{side: replace(getattr(found, side), scenario=row)})
        found = changed(found, side, lambda r: replace(r, not_sustained="not sustained"))
    assert judge_against_reference(found, ratios, final=False).judgements == ()
    assert not ReferenceStopRule(ratios).decided(found.turned())


def test_turning_a_comparison_twice_changes_nothing() -> None:
    found = replace(comparison(0.9, noise=NOISE), orders=("ABBA", "BAAB BAAB"))
    assert found.turned().orders == ("BAAB", "ABBA ABBA")
    assert found.turned().candidate is found.baseline
    assert found.turned().turned() == found


def test_units_end_as_soon_as_all_is_known(ratios: Ratios) -> None:
    rule = ReferenceStopRule(ratios)
    turned = comparison(0.8, noise=NOISE).turned()  # as it is measured: the reference is the change
    assert rule.decided(turned)
    assert not rule.decided(replace(turned, orders=("ABBA",) * 7)), "no planned look"
    wide = comparison(1.0, noise=(1.3, 0.7, 1.2, 0.8, 1.0, 1.1, 0.9, 1.2, 0.8, 1.0)).turned()
    assert not rule.decided(wide)


@given(
    factor=st.floats(0.5, 2.0),
    worse=st.floats(0.5, 1.0),
    noise=st.lists(st.floats(0.8, 1.2), min_size=4, max_size=12),
)
def test_a_candidate_that_is_worse_is_never_judged_better(factor: float, worse: float, noise: list[float]) -> None:
    held, order = load_ratios(SHIPPED), (Verdict.REGRESSED, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.IMPROVED)
    here, there = (
        order.index(verdicts(comparison(one, noise=noise), held)["records_per_s"]) for one in (factor, factor * worse)
    )
    # A clear loss goes from undecided to red, a clear gain from undecided to improved: never the other way. (What is
    # kept at the first look is not looked at again, and what is not may turn out improved.)
    assert there <= here or {here, there} in ({1, 2}, {2, 3})


@pytest.mark.parametrize(("truth", "red", "green"), [(1.0, (0, 0.01), (0.9, 1)), (0.9, (0.9, 1), (0, 0.02))])
def test_how_often_it_is_wrong(
    truth: float, red: tuple[float, float], green: tuple[float, float], ratios: Ratios
) -> None:
    """40 units that scatter by 8 % each, the rate alone: the error of their mean is 1.3 %, widened to 2 %."""
    draw, said = np.random.default_rng(11), Counter[Verdict]()
    for _ in range(150):
        noise = [math.exp(x) for x in draw.normal(0, 0.04, 40)]  # halved: it is put on both sides
        said[verdicts(comparison(truth, noise=noise), ratios)["records_per_s"]] += 1
    assert red[0] <= said[Verdict.REGRESSED] / 150 <= red[1], said
    assert green[0] <= (said[Verdict.PASS] + said[Verdict.IMPROVED]) / 150 <= green[1], said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "states no ratio, so that nothing would be judged"),
        ("[default]\nspeed = { at_least = 1 }", "speed"),
        ("[default]\nrecords_per_s = { at_most = 1 }", "better when it is higher: state at_least, and only that"),
        ("[default]\nrecords_per_s = { at_least = 1.1 }", "asks for more than the reference reaches; legal: 0.1 .. 1"),
        ("[default]\nrecords_per_s = { at_least = 0.05 }", "at_least = 0.05 is as good as no limit; legal: 0.1 .. 1"),
        ("[default]\nbroker_cpu_us_per_record = { at_most = 10 }", "as good as no limit; legal: 1 .. 1.9 times"),
        ('[batch-1k]\n"latency_ms.p99" = { at_most = 50 }', "as good as no limit; legal: 1 .. 10 times"),
        (
            '[default]\n"latency_ms.p99" = { at_most = 0.9 }',
            "asks for more than the reference reaches; legal: 1 .. 10 times",
        ),
        ("[default]\nrecords_per_s = { least = 0.9 }", "least"),
        ("[default]\nrecords_per_s = { at_least = 0 }", "at_least"),
        ("[default]\nrecords_per_s = 0.9", "records_per_s"),
        ("default = 1", "default"),
    ],
)
def test_a_slip_of_the_pen_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "ratios.toml").write_text(text)
    with pytest.raises(ConfigurationError) as raised:
        load_ratios(tmp_path)
    assert words in str(raised.value)


def test_a_scenarios_own_ratio_goes_before_the_default(tmp_path: Path) -> None:
    own = "[default]\nrecords_per_s = { at_least = 0.95 }\n[batch-1k]\nrecords_per_s = { at_least = 0.8 }\n"
    (tmp_path / "ratios.toml").write_text(own)
    held = load_ratios(tmp_path)
    limits: dict[str, Any] = {name: [ratio.limit for ratio in held.of(name)] for name in ("batch-1k", "other")}
    assert limits == {"batch-1k": [0.8], "other": [0.95]}
    with pytest.raises(ConfigurationError, match=r"\[batch-1k\] is no scenario"):
        held.check(["other"])


def test_a_metric_that_is_not_there_is_left_out_unless_it_is_the_scenarios_own(tmp_path: Path) -> None:
    found = comparison(1.0, noise=NOISE)
    text = '[{}]\n"end_to_end_latency_ms.p99" = {{ at_most = 1.5 }}\n'
    (tmp_path / "ratios.toml").write_text(text.format("default"))
    assert judge_against_reference(found, load_ratios(tmp_path)).verdict is Verdict.MISSING
    (tmp_path / "ratios.toml").write_text(text.format("batch-1k"))
    assert judge_against_reference(found, load_ratios(tmp_path)).verdict is Verdict.INVALID


def without_cpu(found: Comparison, why: str = "") -> Comparison:
    """Return the comparison of brokers whose CPU nobody told."""
    cpu = "broker_cpu_us_per_record"
    for side in ("baseline", "candidate"):
        found = changed(
            found,
            side,
            lambda r: replace(r, usage_unavailable=why, metrics={k: v for k, v in r.metrics.items() if k != cpu}),
        )
    return found


def test_a_ratio_that_nobody_could_tell_is_said_to_be_left_out(ratios: Ratios) -> None:
    """Turns too short for a Prometheus' scrapes were green without a word on the brokers' CPU."""
    outcome = judge_against_reference(without_cpu(comparison(1.0, noise=NOISE), "two scrapes in 2 s"), ratios)
    assert outcome.verdict is Verdict.PASS
    assert outcome.reasons == ("broker_cpu_us_per_record is not held: two scrapes in 2 s",)
    assert "not held: two scrapes" in reference_message(outcome, comparison(1.0, noise=NOISE), "kafka 4.2", ratios)
    assert not judge_against_reference(without_cpu(comparison(1.0, noise=NOISE)), ratios).reasons


def test_at_the_cap_brokers_whose_cpu_nobody_tells_are_held_by_what_is_known(ratios: Ratios) -> None:
    """A comparison would decide by that CPU, so that it needs --on; of a gate the ratios are stated."""
    found = without_cpu(comparison(1.0, noise=(1.0,) * 10, cap=1000.0))
    assert judge_comparison(found).effect is Effect.INVALID
    outcome = judge_against_reference(found, ratios)
    assert outcome.verdict is Verdict.PASS, outcome.reasons
    assert "broker_cpu_us_per_record" not in {one.metric for one in outcome.judgements}


def test_a_rate_at_the_edge_is_measured_on_until_it_is_told(tmp_path: Path) -> None:
    """It left undecided, half of its time unspent, at the first look at which its ratios were kept."""
    (tmp_path / "ratios.toml").write_text('[default]\n"latency_ms.p99" = { at_most = 1.5 }\n')
    ratios, found = load_ratios(tmp_path), comparison(1.0, noise=(1.0, 1.001, 0.999, 1.0, 1.001, 0.999))
    sides = {}
    for side, short in (("baseline", 2), ("candidate", 4)):
        one = getattr(found, side)
        rounds = tuple(replace(r, not_sustained="took 900 of 1,000" if r.index <= short else "") for r in one.rounds)
        sides[side] = replace(one, rounds=rounds, scenario=replace(one.scenario, load=Load(kind="paced", rate=1000)))
    found = replace(found, **sides)
    assert judge_against_reference(found, ratios).verdict is Verdict.INCONCLUSIVE
    assert not ReferenceStopRule(ratios).decided(found.turned())


@pytest.mark.parametrize(("method", "held"), [("turns", False), ("pairs", True)])
def test_memory_of_brokers_that_serve_both_sides_keeps_no_ratio(method: str, held: bool, tmp_path: Path) -> None:
    """It was kept whatever the candidate needs: both sides read the same processes."""
    (tmp_path / "ratios.toml").write_text(
        '[default]\nrecords_per_s = { at_least = 0.95 }\n[batch-1k]\n"broker_rss_mib.max" = { at_most = 1.1 }\n'
    )
    found = comparison(1.0, method=method)
    for side in ("baseline", "candidate"):
        found = changed(found, side, lambda r: replace(r, metrics={**r.metrics, "broker_rss_mib.max": 600.0}))
    outcome = judge_against_reference(found, load_ratios(tmp_path))
    assert outcome.verdict is Verdict.PASS
    assert ("broker_rss_mib.max" in {j.metric for j in outcome.judgements}) is held
    assert outcome.reasons == (() if held else ("broker_rss_mib.max is not held: both sides are of the same brokers",))
