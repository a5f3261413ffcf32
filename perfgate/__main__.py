"""The command ``kafka-perf-gate``, called as ``-m perfgate``."""

import sys

from perfgate.fixtures.commands import main

if __name__ == "__main__":
    sys.exit(main())
