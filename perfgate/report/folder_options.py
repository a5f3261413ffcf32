"""Options that several commands have: the folders of runs and thresholds, and what lets a command write."""

from __future__ import annotations

from pathlib import Path

import click

from perfgate.judge.thresholds import load_profiles
from perfgate.model import Profile

FOLDER = click.Path(path_type=Path)
USUAL = Path("thresholds")
RESULTS = click.option(
    "--results", type=FOLDER, metavar="DIR", default="results", show_default=True, help="Folder of the runs."
)
THRESHOLDS = click.option(
    "--thresholds",
    type=FOLDER,
    metavar="DIR",
    default=USUAL,
    show_default=True,
    help="Folder of the threshold files.",
)
ACCEPT = click.option("--accept", is_flag=True, help="Write the file; without it nothing is written.")


def profiles_in(thresholds: Path) -> dict[str, Profile]:
    """Return the stored profiles: none where the usual folder is not there yet. Raises ConfigurationError."""
    return load_profiles(thresholds) if thresholds != USUAL or thresholds.is_dir() else {}
