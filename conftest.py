"""The performance gate, in the order in which a run passes through it.

command_line  the options
foreign       what other plugins of pytest may not do to its tests
options       what was asked for, checked before anything starts
selection     which scenarios and relations that selects, and what this run makes of them
sources       where measurements come from: a recorded run (replay), or perfgate.measure on a target (live, wiring)
knee          the rates that are a share of what an earlier run found
plan          the first line: what the run is about to do
listing       or only a list of what is selected
dry_run       or only what that would do to the target
like          or only a family that is like one of the target's topics
gate          the tests' fixture: measure, judge (perfgate.judge)
reports       the terminal's table, run.json, Allure results (perfgate.report), the exit code
"""

pytest_plugins = (
    "fixtures.command_line",
    "fixtures.foreign",
    "fixtures.options",
    "fixtures.selection",
    "fixtures.sources",
    "fixtures.knee",
    "fixtures.plan",
    "fixtures.listing",
    "fixtures.dry_run",
    "fixtures.like",
    "fixtures.gate",
    "fixtures.reports",
)
