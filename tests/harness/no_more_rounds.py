"""A plugin for a gate run (`-p tests.harness.no_more_rounds`): brokers that still compile get few more rounds.

As many as the tier has; otherwise a row may take up to twelve of them, where the test is of something else.
"""

from perfgate.measure import plan

setattr(plan, "OWN_EXTRA_ROUNDS", 0)  # noqa: B010 - mypy takes it for a constant
