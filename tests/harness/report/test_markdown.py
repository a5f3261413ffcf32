"""summary.md: short whatever happened, the worst first, and safe against what brokers and files put into names."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.model.command import command_line
from perfgate.model.secret import Secret
from perfgate.report.markdown import cell, summary
from perfgate.report.view import view_of
from tests.harness.build import flaw_entry

HOSTILE = "x | y\n| z | <script>alert(1)</script> [a](javascript:b) `c` **d** @team #1 \\"


def judged(name: str, verdict: str, **found: Any) -> dict[str, Any]:
    judgement = {"metric": "records_per_s", "verdict": verdict, "measured": 770.0, "baseline": 1000.0, "limit": 900.0}
    return {
        "name": name,
        "summary": "a scenario",
        "verdict": verdict,
        "reasons": [],
        "metrics": {},
        "judgements": [{**judgement, "reason": ""}],
        **found,
    }


def document(**changes: Any) -> dict[str, Any]:
    return {
        "run_id": "20261123T000000Z-0000",
        "exit_code": 0,
        "change": None,
        "replay_of": None,
        "modified": [],
        "left_behind": [],
        "profile": None,
        "tier": {"name": "smoke"},
        "target": {"name": "embedded", "kafka_version": "4.3.1"},
        "environment": {"cores": 2, "cpu_model": "AMD EPYC"},
        "scenarios": [],
        "relations": [],
        "comparisons": [],
        "not_run": [],
        **changes,
    }


def summary_of(run: dict[str, Any]) -> str:
    """Return the summary of a run whose messages begin with verdict and name."""
    found = {entry["name"]: f"{entry['verdict']} {entry['name']} and why" for entry in run["scenarios"]}
    return summary(view_of(run, found))


def table(text: str) -> list[list[str]]:
    """Return the cells of the table's rows, as a renderer splits them."""
    return [re.split(r"(?<!\\)\|", line)[1:-1] for line in text.splitlines() if line.startswith("|")]


def test_a_report_is_named_where_one_is_built() -> None:
    """That of an interrupted run, and of one that is judged again, is nowhere until somebody has it made."""
    for change, built in (({}, True), ({"exit_code": 7}, True), ({"exit_code": 2}, False), ({"replay_of": "r"}, False)):
        text = summary_of(document(**change))
        assert ("folder: report/index.html, run.json." in text) is built
        assert (f"folder: run.json; {command_line('report', 'FOLDER')} " in text) is not built


def test_no_report_is_named_where_pytest_itself_has_made_the_run() -> None:
    text = summary(view_of(document()), built=False)
    assert f"folder: run.json; {command_line('report', 'FOLDER')} " in text
    assert "index.html" not in text


def test_a_green_run_says_so_and_lists_nothing() -> None:
    text = summary_of(document(scenarios=[judged("batch-1k", "PASS"), judged("acks-all", "PASS")]))
    assert text.startswith("**GREEN: all that was judged holds**\n")
    assert "2 PASS." in text
    assert not table(text)


def test_the_worst_comes_first_and_is_the_headline() -> None:
    rows = [judged("a", "PASS"), judged("b", "INCONCLUSIVE"), judged("c", "REGRESSED"), judged("d", "BROKEN")]
    text = summary_of(document(exit_code=1, scenarios=rows))
    assert text.startswith("**RED: BROKEN d and why, and 2 more below**\n")
    assert "| records_per_s 770 records/s, -23.0 % from the baseline of 1,000, limit 900 |" in text
    assert [cells[1].strip() for cells in table(text)[2:]] == ["d", "c", "b"]


def test_brokers_that_failed_beside_another_family_are_the_headline() -> None:
    flaw = flaw_entry("broker 2 exited with code 1", broken=True)
    beside = {"name": "batch-1k", "beside": "acks", "rounds": [{"flaws": [flaw]}, {"flaws": []}]}
    unjudged = {**judged("a", "PASS"), "verdict": None}
    text = summary_of(document(exit_code=1, baselines=[beside], scenarios=[unjudged, judged("b", "REGRESSED")]))
    assert text.startswith("**RED: BROKEN batch-1k beside acks: broker 2 exited with code 1, and 2 more below**")
    assert [cells[1].strip() for cells in table(text)[2:]] == ["batch-1k beside acks", "b", "a"]


def test_a_scenario_without_figures_tells_its_reason() -> None:
    broken = judged("a", "INVALID", judgements=[], reasons=["round 1: a broker died"])
    assert "| INVALID | a | round 1: a broker died |" in summary_of(document(exit_code=6, scenarios=[broken]))


def test_a_comparison_has_its_interval() -> None:
    found = {"scenario": "replicas-3", "verdict": "SLOWER", "metric": "records_per_s", "estimate": -0.12}
    found |= {"interval": [-0.15, -0.09], "reasons": []}
    text = summary_of(document(exit_code=1, change={"name": "x"}, comparisons=[found]))
    assert text.startswith("**RED: SLOWER replicas-3: records_per_s -12.0 % (-15.0 .. -9.0 %)**\n")
    assert "| SLOWER | replicas-3 | records_per_s -12.0 %" in text
    same = found | {"verdict": "SAME", "units": 25, "minutes": 4.96}
    run = document(change={"name": "x"}, comparisons=[same])
    text = summary(replace(view_of(run), advice="'x' changes no scenario's speed by more than 5 %"))
    assert "\n'x' changes no scenario's speed by more than 5 %\n" in text
    assert "| SAME | replicas-3 | records_per_s -12.0 % (-15.0 .. -9.0 %), 25 units, 5.0 min |" in text
    assert "1 SAME" not in text
    found |= {"estimate": 0.12, "interval": [0.1, 0.14], "reasons": ["latency_ms.p99 is +200 %"]}
    text = summary_of(document(exit_code=1, change={"name": "x"}, comparisons=[found]))
    assert "records_per_s +12.0 % (+10.0 .. +14.0 %); latency_ms.p99 is +200 %" in text


def measured(name: str, verdict: str, rate: float, p50_ms: float = 5.0) -> dict[str, Any]:
    metrics = {"records_per_s": rate, "latency_ms.p99": 12.5, "broker_cpu_us_per_record": 46.2}
    rounds = [{"metrics": {"latency_ms.p50": p50_ms}, "warmup_s": 2.0, "window_s": 2.0, "flaws": []}] * 3
    values = {metric: {"value": value} for metric, value in metrics.items()}
    return judged(name, verdict, metrics=values, load={"kind": "capped"}, rounds=rounds)


def figures(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in cells] for cells in table(text) if len(cells) == 9][2:]


def test_green_or_without_thresholds_every_scenario_has_its_figures_against_last_run_and_baseline() -> None:
    """A run without thresholds had not one figure."""
    run = document(scenarios=[measured("a", "PASS", 1100.0), measured("b", "MISSING", 500.0)])
    before = document(scenarios=[measured("a", "PASS", 1000.0)])
    text = summary(view_of(run), before)
    assert figures(text) == [
        ["b", "records_per_s", "500 records/s", "-", "-50.0 %", "12.5", "46.2", "900", "MISSING"],
        ["a", "records_per_s", "1,100 records/s", "+10.0 %", "+10.0 %", "12.5", "46.2", "900", "PASS"],
    ]
    assert "<details open><summary>Figures of 2 scenarios</summary>" in text


def test_a_latency_that_is_how_long_the_load_had_run_is_no_figure() -> None:
    run = document(scenarios=[measured("a", "PASS", 1100.0, p50_ms=2_900.0)])
    ((*_, p99, cpu, _, _),) = figures(summary(view_of(run)))
    assert (p99, cpu) == ("-", "46.2")


def test_figures_are_folded_where_others_come_first_or_all_holds() -> None:
    for verdicts in (["PASS"], ["MISSING", "REGRESSED"]):
        rows = [measured(f"s{n}", verdict, 100.0) for n, verdict in enumerate(verdicts)]
        assert "<details><summary>" in summary_of(document(scenarios=rows))


def test_a_comparison_and_a_run_without_figures_have_no_table_of_them() -> None:
    assert "<details" not in summary_of(document(scenarios=[judged("a", "INVALID")]))


def test_no_text_is_cut_inside_a_word() -> None:
    assert cell("one two three", 12) == "one two..."
    assert cell("one two three four", 10) == "one two..."
    assert cell("abcdefghijkl", 10) == "abcdefg..."


def test_what_was_not_run_is_grouped_by_reason() -> None:
    absent = [{"name": f"s{n}", "reason": "no [prometheus]"} for n in range(3)] + [{"name": "t", "reason": "no zone"}]
    text = summary_of(document(not_run=absent))
    assert "- not run: 3 (s0, s1, s2): no \\[prometheus\\]" in text
    assert "- not run: 1 (t): no zone" in text


@pytest.mark.parametrize(
    ("code", "words"), [(2, "INTERRUPTED"), (3, "NO VERDICT"), (6, "UNDECIDED"), (7, "NOT ALL PUT BACK"), (4, "RED")]
)
def test_no_other_end_reads_like_green(code: int, words: str) -> None:
    text = summary_of(document(exit_code=code, scenarios=[judged("a", "PASS")]))
    assert text.startswith(f"**{words} (exit code {code})**")


def test_hostile_names_make_no_markup() -> None:
    text = summary_of(document(exit_code=1, scenarios=[judged(HOSTILE, "REGRESSED", reasons=[HOSTILE])]))
    assert [len(cells) for cells in table(text)] == [3, 3, 3]
    assert "<script>" not in text
    assert not re.search(r"(?<!\\)\[a\]", text)


def test_a_fault_has_its_outage_and_all_the_records_that_were_lost() -> None:
    figures = {"outage_s.max": {"value": 8.94}, "lost_records": {"value": 0.0, "rounds": [0.0, 12.0, 0.0]}}
    text = summary_of(document(exit_code=1, scenarios=[judged("kill-broker", "REGRESSED", metrics=figures)]))
    assert "limit 900; outage 8.9 s, 12 lost |" in text


def test_green_without_thresholds_is_not_plain_green() -> None:
    text = summary_of(document(scenarios=[judged("a", "MISSING")]))
    assert text.startswith("**GREEN WITHOUT THRESHOLDS: ")


def test_a_secret_that_would_be_escaped_is_masked() -> None:
    """Escaped, nothing that looks for it afterwards would find it."""
    Secret("pass|word*1")
    assert "word" not in cell("broker said pass|word*1")


def test_nobody_is_notified() -> None:
    assert "@\u200bteam #\u200b1".replace("#", "\\#").replace("@", "\\@") == cell("@team #1")


def test_the_fullest_run_has_at_most_forty_lines() -> None:
    rows = [judged(f"s{n}", "BROKEN") for n in range(60)] + [judged("m", "MISSING"), judged("p", "PASS")]
    absent = [{"name": f"n{n}", "reason": f"reason {n}"} for n in range(60)]
    many = [f"broker {n}" for n in range(60)]
    run = document(exit_code=7, scenarios=rows, not_run=absent, left_behind=many, modified=many)
    for notes in ((), tuple(many)):
        assert len(summary(replace(view_of(run), notes=notes)).splitlines()) <= 40


@pytest.mark.parametrize(("count", "last"), [(1, "broker 0"), (5, "broker 4"), (6, "2 more: see run.json")])
def test_what_was_left_behind_is_counted_where_it_is_not_listed(count: int, last: str) -> None:
    """The sixth broker that was left down stood nowhere."""
    text = summary_of(document(exit_code=7, left_behind=[f"broker {number}" for number in range(count)]))
    left = [line for line in text.splitlines() if line.startswith("- left behind: ")]
    assert left[-1] == f"- left behind: {last}"
    assert len(left) == min(count, 5)


def test_notes_stand_below_the_verdicts() -> None:
    notes = ("a: load host load-3: its p99 | is the highest",)
    text = summary(replace(view_of(document(scenarios=[judged("a", "PASS")])), notes=notes))
    assert "\n1 PASS.\n\n- note: a: load host load-3: its p99 \\| is the highest\n\n" in text


@given(
    st.lists(st.tuples(st.text(), st.sampled_from(["BROKEN", "REGRESSED", "INCONCLUSIVE", "PASS"])), max_size=60),
    st.lists(st.tuples(st.text(), st.text(min_size=1)), max_size=60),
    st.lists(st.text(), max_size=10),
)
def test_any_texts_make_a_whole_table_and_at_most_forty_lines(
    rows: list[tuple[str, str]], absent: list[tuple[str, str]], left: list[str]
) -> None:
    text = summary_of(
        document(
            exit_code=1,
            scenarios=[judged(name, verdict) for name, verdict in rows],
            not_run=[{"name": name, "reason": why} for name, why in absent],
            left_behind=left,
            modified=left,
        )
    )
    assert len(text.splitlines()) <= 40
    assert all(len(cells) == 3 for cells in table(text))


@given(st.text())
def test_a_cell_is_one_line_without_live_markup(text: str) -> None:
    found = cell(text)
    assert len(found.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*[|<>`*\[\]]", found)
