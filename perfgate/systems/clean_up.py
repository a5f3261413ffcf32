"""Putting back what ended runs have left on real brokers, as a command: ``make clean-up TARGET=FILE.toml``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from perfgate.host.disk import state_dir
from perfgate.model.errors import ConfigurationError
from perfgate.model.judged import ExitCode
from perfgate.model.secret import leave_no_core_dump, redacted
from perfgate.systems.by_file import attached, load_described


def main() -> int:
    """Do what the arguments ask for; return the exit code: 7 when something could not be put back."""
    parser = argparse.ArgumentParser(
        prog="make clean-up",
        description="Put back what ended runs have left on the brokers that a target file describes.",
    )
    parser.add_argument("target", type=Path, metavar="FILE.toml", help="the target file of these brokers")
    parser.add_argument("--run", default="", metavar="RUN-ID", help="this run alone, whichever host it was of")
    parser.add_argument(
        "--others", action="store_true", help="runs of other hosts too: they have ended, say you (default: told only)"
    )
    arguments = parser.parse_args()

    def say(text: str) -> None:
        print(redacted(text), flush=True)

    target = None
    try:
        leave_no_core_dump()
        target = attached(
            load_described(arguments.target),
            say,
            run_id="clean-up",
            manifests=state_dir() / "manifests",
            others_ended=arguments.others,
        )
        left = target.clean_up(arguments.run)
    except ConfigurationError as error:
        print(redacted(f"nothing was put back: {error}"), file=sys.stderr)
        return ExitCode.LEFT_BEHIND if target and target.left_behind else ExitCode.ENDED_EARLY
    for text in left:
        print(redacted(text), file=sys.stderr)
    return ExitCode.LEFT_BEHIND if left else ExitCode.GREEN


if __name__ == "__main__":
    sys.exit(main())
