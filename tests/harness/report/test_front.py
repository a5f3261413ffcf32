"""The report's first page: verdict first, the six answers, nothing that a name could make markup of."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfgate.judge.claims.same import judge_comparison
from perfgate.judge.phrases import number
from perfgate.model.command import command_line
from perfgate.report.front import Past, banners, front_html
from perfgate.report.results import comparison_entry, load_run, recorded_measurements, write_run
from perfgate.report.runs_alike import run_before
from perfgate.report.view import integrity_line, view_of
from tests.harness.build.comparisons import comparison
from tests.harness.build.recorded import RECORDED

HOSTILE = '<script>alert("x")</script>\n&'


@pytest.fixture
def document() -> dict[str, Any]:
    found = copy.deepcopy(dict(load_run(RECORDED)))
    for relation in found["relations"]:  # which the recording is too old for
        relation.setdefault("at_most", 10.0)
    found["left_behind"] = []
    return found


def test_what_is_off_stands_first_and_what_holds_is_folded(document: dict[str, Any]) -> None:
    row = document["scenarios"][2]
    row["verdict"], document["exit_code"] = "REGRESSED", 1
    message = f"{row['name']} sends 57 % fewer records/s\n  next       gate AGAIN"
    page = front_html(replace(view_of(document, {row["name"]: message}), drifts=("drifted since RUN",)), None)
    places = [
        page.index(words)
        for words in (
            f"RED: {row['name']} sends 57 % fewer records/s",
            f'<span class="badge red">REGRESSED</span> <a href="allure.html#of={row["name"]}">',
            "gate AGAIN",
            "Figures of 5 scenarios",
            "<summary>Unchanged: 12 PASS",
            "drifted since RUN",
            "records sent",
            "What to do next",
        )
    ]
    assert places == sorted(places)
    assert 'badge green">' not in page, "what holds has no card"


def test_a_card_has_the_figures_of_what_is_worst(document: dict[str, Any]) -> None:
    row = document["scenarios"][2]
    row["verdict"], document["exit_code"] = "REGRESSED", 1
    worst = next(one for one in row["judgements"] if one["metric"] == "records_per_s")
    worst |= {"verdict": "REGRESSED", "baseline": 90_000.0, "limit": 80_000.0}
    past = Past(since={row["name"]: "REGRESSED in 3 runs in a row"})
    page = front_html(view_of(document), None, past)
    card = page.partition('<section class="card')[2].partition("</section>")[0]
    measured = row["metrics"]["records_per_s"]["value"]
    for what, value in (("measured", measured), ("expected", 90_000), ("limit", 80_000)):
        assert f"<dt>{what}</dt><dd>{value:,.0f} records/s</dd>" in card
    assert card.count("<circle") == len(row["metrics"]["records_per_s"]["rounds"])
    assert "REGRESSED in 3 runs in a row" in card


def test_the_runs_so_far_are_drawn_where_there_are_some(document: dict[str, Any]) -> None:
    name, value = (entry := document["scenarios"][0])["name"], entry["metrics"]["records_per_s"]["value"]
    past = Past(values={name: {"records_per_s": [1_000.0, 2_000.0]}})
    page = front_html(view_of(document), None, past)
    words = f"3 runs, from {number(min(1_000.0, value))} to {number(max(2_000.0, value))}, this one {number(value)}"
    assert page.count('class="spark"') == 1
    assert words in page
    assert "runs so far" not in front_html(view_of(document), None)


def test_what_else_to_know_stands_beside_whether_to_trust_it(document: dict[str, Any]) -> None:
    notes = (f"load host {HOSTILE}: its p99 is the highest in all 7 rounds",)
    page = front_html(replace(view_of(document), notes=notes), None)
    places = [page.index(words) for words in ("Can I trust it", "its p99 is the highest", "What to do next")]
    assert places == sorted(places)
    assert "<script" not in page


@pytest.mark.parametrize(
    ("code", "left", "said"),
    [
        (0, [], "Nothing: go on."),
        (1, [], "Do not base a decision on this run: read in its log which brokers failed"),
        (9, [], "Do not base a decision on this run: an error kept it from its verdict"),
        (2, [], "Do not base a decision on this run: the run was interrupted"),
        (6, [], "Do not base a decision on this run: nothing was judged, or only what"),
        (7, ["BROKER 1 IS STILL DOWN: start it"], "BROKER 1 IS STILL DOWN: start it"),
    ],
)
def test_only_a_green_run_is_gone_on_with(document: dict[str, Any], code: int, left: list[str], said: str) -> None:
    document |= {"exit_code": code, "left_behind": left}
    last = front_html(view_of(document), None).partition("What to do next</h2>")[2]
    assert last.lstrip().startswith(f"<ul><li>{said}"), "a broker that was left down is the first of it"
    assert ("go on." in last) is (code == 0)


def test_only_plain_green_is_shown_green(document: dict[str, Any]) -> None:
    """What was undecided and let pass, and a run without a threshold, stood in green."""
    assert '<h1 class="green">GREEN: ' in front_html(view_of(document), None)
    entry = document["scenarios"][0]
    for verdict, words in (("INCONCLUSIVE", "UNDECIDED, AND LET PASS"), ("MISSING", "GREEN WITHOUT THRESHOLDS")):
        entry["verdict"] = verdict
        assert f'<h1 class="open">{words}: ' in front_html(view_of(document), None)
    document["exit_code"] = 1
    assert '<h1 class="red">RED' in front_html(view_of(document), None)


def test_no_name_makes_markup(document: dict[str, Any]) -> None:
    document["target"]["kafka_version"] = document["profile"] = HOSTILE
    document["environment"]["cpu_model"] = document["scenarios"][0]["name"] = HOSTILE
    document["scenarios"][0]["verdict"] = "INVALID"
    document["scenarios"][0]["reasons"], document["scenarios"][0]["judgements"] = [HOSTILE], []
    page = front_html(replace(view_of(document, {HOSTILE: HOSTILE}), drifts=(HOSTILE,)), load_run(RECORDED))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6


def test_another_machine_is_a_banner_and_the_same_one_is_none(document: dict[str, Any]) -> None:
    before = load_run(RECORDED)
    assert banners(document, before) == banners(document, None) == []
    document["environment"]["kernel"] = "9.9"
    (banner,) = banners(document, before)
    assert f"kernel was {before['environment']['kernel']}, is 9.9" in banner
    assert banner in front_html(view_of(document), before)


def test_another_kafka_is_what_figures_are_held_against_and_no_other_machine(document: dict[str, Any]) -> None:
    before = load_run(RECORDED)
    document["target"]["kafka_version"] = "9.9.9"
    (banner,) = banners(document, before)
    assert banner.startswith("Kafka was ")
    assert "is 9.9.9: what differs from its figures may be that" in banner
    assert "Do not compare" not in banner


def test_the_run_before_is_the_newest_earlier_one(document: dict[str, Any], tmp_path: Path) -> None:
    assert run_before(document, tmp_path) is None
    for run_id in ("20261101T000000Z-aaaa", "20261102T000000Z-aaaa", "20991231T000000Z-aaaa"):
        write_run({**document, "run_id": run_id}, tmp_path / run_id / "run.json")
    found = run_before(document, tmp_path)
    assert found is not None
    assert found["run_id"] == "20261102T000000Z-aaaa"
    others: list[dict[str, Any]] = [
        {"tier": {**document["tier"], "name": "full"}},
        {"change": {"name": "x"}},
        {"modified": ["--set x=1"]},
    ]
    for day, other in enumerate(others, 3):
        run_id = f"2026110{day}T000000Z-aaaa"
        write_run({**document, **other, "run_id": run_id}, tmp_path / run_id / "run.json")
    assert run_before(document, tmp_path) == found, "what measures something else is no run before"


def test_what_cannot_be_recorded_is_not_told_to_be(document: dict[str, Any]) -> None:
    """A load of hosts is held against no figures of one machine; the page said to record some of this one."""
    for entry in document["scenarios"]:
        entry["verdict"] = "MISSING"
    document["profile"] = None
    assert f"Record thresholds of this machine: {command_line('baseline')}" in front_html(view_of(document), None)
    page = front_html(view_of({**document, "profile_note": "this load is of --hosts"}), None)
    assert "No profile is held (this load is of --hosts): relations alone." in page
    assert command_line("baseline") not in page
    named = view_of({**document, "profile": "staging", "profile_note": "cores 8 there, 2 here"})
    assert "Held against profile staging (cores 8 there, 2 here)." in front_html(named, None)


def test_the_integrity_line_counts_what_readers_were_not_given() -> None:
    sent = {"attempted": 1000, "acked": 990, "failed": 7, "unresolved": 3}
    unread = {"accounting": sent, "reading": None}
    assert integrity_line([unread, unread]) == "2,000 records sent: 1,980 acknowledged, 14 failed, 6 unresolved"
    taken_back = {**sent, "attempted": 1100, "withdrawn": 100}
    assert integrity_line([{"accounting": taken_back, "reading": None}]) == (
        "1,100 records sent: 990 acknowledged, 7 failed, 3 unresolved, 100 taken back before they left the client"
    ), "the sum is whole"
    reading = {"read": 980, "missed": 2, "duplicated": 1, "reordered": 4}
    line = integrity_line([{"accounting": sent, "reading": reading}])
    assert line.endswith("980 read: 2 missed, 1 duplicated, 4 out of order")


def test_a_change_that_makes_something_slower_is_not_gone_on_with() -> None:
    """The page said "Nothing: go on" beside a comparison that was red, and that no scenario had been measured."""
    one = recorded_measurements(load_run(RECORDED))["batch-1k"]
    found = replace(comparison(0.8), baseline=one, candidate=one)
    entry = comparison_entry(found, judge_comparison(found))
    sent = 2 * sum(r.accounting.attempted for r in one.rounds)
    run = {**load_run(RECORDED), "scenarios": [], "relations": [], "comparisons": [entry], "change": {"name": "x"}}
    run |= {"exit_code": 1, "left_behind": [], "ranges": [], "baselines": [], "replay_of": None}
    page = front_html(replace(view_of(run), advice="Do not apply 'x' as it is"), None)
    assert page.index("What to do next") < page.index("Do not apply &#39;x&#39; as it is")
    assert "Nothing: go on" not in page
    assert f"1 scenario compared: {sent:,} records sent: {sent:,} acknowledged" in page
    assert "Each scenario as declared and with &#39;x&#39;, in turns." in page


def test_no_link_leads_to_the_figures_that_a_comparison_does_not_write(document: dict[str, Any]) -> None:
    assert 'href="../metrics.csv"' in front_html(view_of(document), None)
    page = front_html(view_of(document | {"change": {"name": "x"}}), None)
    assert "metrics.csv" not in page
    assert 'href="../summary.md"' in page
    assert 'href="../run.json"' in page
