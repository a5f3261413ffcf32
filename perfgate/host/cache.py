"""Where the suite keeps what it fetched or learnt between runs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """Return the folder for what is kept between runs: $XDG_CACHE_HOME/kafka-perf-gate."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kafka-perf-gate"
