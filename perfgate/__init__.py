"""The engine of the performance gate: loads a system, measures it, judges what was measured. Imports without pytest.

PYTEST_DONT_REWRITE: it asserts nothing, and the command has it before pytest could.
"""
