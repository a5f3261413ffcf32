"""The performance gate, in the order in which a run passes through it.

options      what was asked for, checked before anything starts
collection   which rows and relations that selects
plan         the first line: what the run is about to do
sources      where measurements come from: campaign -> rounds or (--compare) comparing -> stand -> target, load, metrics
dry_run      or only what that would do to the target
gate         the scenario tests' fixture: measure, judge (verdict)
report       the terminal's table, run.json, Allure results, the exit code
"""

pytest_plugins = (
    "fixtures.options",
    "fixtures.selection",
    "fixtures.plan",
    "fixtures.sources",
    "fixtures.dry_run",
    "fixtures.gate",
    "fixtures.reports",
)
