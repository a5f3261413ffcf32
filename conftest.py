"""The performance gate, in the order in which a run passes through it.

options      what was asked for, checked before anything starts
collection   which rows and relations that selects
gate         the scenario tests' fixture: measure (campaign -> rounds -> target, load, metrics), judge (verdict)
report       the terminal's table, run.json, Allure results, the exit code
"""

pytest_plugins = ("fixtures.options", "fixtures.collection", "fixtures.gate", "fixtures.report.plugin")
