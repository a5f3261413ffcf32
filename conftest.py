"""The performance gate, in the order in which a run passes through it.

command_line   the options
foreign        what other plugins of pytest may not do to its tests
own_scenarios  scenarios of a user's own; or only a family that is like one of the target's topics
book           all that the run finds
options        what was asked for, checked before anything starts (run_config)
selection      which scenarios and relations that selects, and what this run makes of them
knee           the rates that are a share of what an earlier run found
plan           the first line: what the run is about to do; or only a list of what is selected, or what it would do
gate           the tests' fixture: measures (session: perfgate.measure on a target, or a recorded run), judges
               (perfgate.judge)
reports        the terminal's table, run.json, Allure results (perfgate.report), the exit code
"""

pytest_plugins = (
    "perfgate.fixtures.command_line",
    "perfgate.fixtures.foreign",
    "perfgate.fixtures.own_scenarios",
    "perfgate.fixtures.book",
    "perfgate.fixtures.options",
    "perfgate.fixtures.selection",
    "perfgate.fixtures.knee",
    "perfgate.fixtures.plan",
    "perfgate.fixtures.gate",
    "perfgate.fixtures.reports",
)
