"""Putting back what ended runs have left on real brokers, as a command: ``kafka-perf-gate clean-up FILE.toml``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from perfgate.host.disk import state_dir
from perfgate.model.errors import ConfigurationError
from perfgate.model.judged import ExitCode
from perfgate.model.secret import leave_no_core_dump, redacted
from perfgate.systems.by_file import attached, load_described


@click.command(epilog="Example: kafka-perf-gate clean-up targets/staging.toml --others")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.toml")
@click.option("--run", default="", metavar="RUN-ID", help="This run alone, whichever host it was of.")
@click.option(
    "--others", is_flag=True, help="Put back runs of other hosts too, which have ended  [default: list these]"
)
def command(file: Path, run: str, others: bool) -> int:
    """Put back what ended runs have left on real brokers.

    FILE.toml is their target file. The exit code is 7 when something could not be put back.
    """

    def say(text: str) -> None:
        print(redacted(text), flush=True)

    target = None
    try:
        leave_no_core_dump()
        target = attached(
            load_described(file), say, run_id="clean-up", manifests=state_dir() / "manifests", others_ended=others
        )
        left = target.clean_up(run)
    except ConfigurationError as error:
        print(redacted(f"nothing was put back: {error}"), file=sys.stderr)
        return ExitCode.LEFT_BEHIND if target and target.left_behind else ExitCode.ENDED_EARLY
    for text in left:
        print(redacted(text), file=sys.stderr)
    return ExitCode.LEFT_BEHIND if left else ExitCode.GREEN
