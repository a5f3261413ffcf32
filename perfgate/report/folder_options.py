"""Options that several commands have: the folders of runs and thresholds, and what lets a command write."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from perfgate.judge.thresholds import load_profiles
from perfgate.model import Profile

FOLDER = click.Path(path_type=Path)
USUAL = Path("thresholds")
RESULTS = click.option(
    "--results", type=FOLDER, metavar="DIR", default="results", show_default=True, help="Folder of the runs."
)
THRESHOLDS = click.option(
    "--thresholds", type=FOLDER, metavar="DIR", default=USUAL, show_default=True, help="Folder of the threshold files."
)
ACCEPT = click.option("--accept", is_flag=True, help="Write the file; without it nothing is written.")


def words_given() -> list[str]:
    """Return the options with a value that the running command was called with, for a message that words it again."""
    context, words = click.get_current_context(), list[str]()
    for option in context.command.params:
        valued = isinstance(option, click.Option) and not option.is_flag
        if valued and option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE:
            words += [option.opts[0], str(context.params[option.name])]
    return words


def stated_target() -> str:
    """Return the --target that pytest.ini states for the running command, and for others here; empty: none."""
    context = click.get_current_context(silent=True)
    stated = context.default_map if context else None
    return str((stated or {}).get("target", ""))


def profiles_in(thresholds: Path) -> dict[str, Profile]:
    """Return the stored profiles: none where the usual folder is not there yet. Raises ConfigurationError."""
    return load_profiles(thresholds) if thresholds != USUAL or thresholds.is_dir() else {}


def in_changelog() -> str:
    """Return words that name the changelog as the place to explain new thresholds; none where there is none."""
    return ', and under "Thresholds" in CHANGELOG.md,' if Path("CHANGELOG.md").is_file() else ""
