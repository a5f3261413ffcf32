"""The command ``kafka-perf-gate``, as ``python -m perfgate``."""

import sys

from perfgate.fixtures.commands import main

if __name__ == "__main__":
    sys.exit(main())
