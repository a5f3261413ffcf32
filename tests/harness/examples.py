"""Numbers of drawn examples for properties whose examples take long."""

import os

IN_CI = os.environ.get("HYPOTHESIS_PROFILE") == "suite-ci"


def examples(count: int) -> int:
    """Return this count; in CI, whose examples are the same each time, a quarter of it."""
    return count // 4 if IN_CI else count
