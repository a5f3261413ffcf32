"""Gate runs that start no brokers, each a fork of one process that has imported what a start imports.

A start costs seconds of imports, and there are very many such runs. What the run does is the same:
``pytest.main`` of the command's arguments, in a process of its own, with its own output and exit code. Runs that are
told signals, or that start brokers, are processes from their beginning: tests/harness/run_gate.py.
"""

import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.harness.run_gate import HANG_BOUND_S, ROOT, Finished, gate_command

BEFORE_ARGUMENTS = 3
"""Of a gate's command line: python -m pytest."""
REWRITTEN = ("allure_pytest", "pytest_benchmark", "_hypothesis_pytestplugin", "conftest", "perfgate.fixtures", "tests")
"""What pytest has to import itself, to rewrite its asserts."""


def gate(
    results: Path,
    *arguments: object,
    environment: dict[str, str] | None = None,
    within_s: float = HANG_BOUND_S,
    pictures: bool = False,
) -> Finished:
    """Run the gate to its end, as tests.harness.run_gate.gate does; `pictures`: with those of its report."""
    told = gate_command(results, *arguments)[BEFORE_ARGUMENTS:]
    if not pictures:
        told = ["-p", "tests.harness.no_pictures", *told]
    code, output = run_pytest(told, {**os.environ, **(environment or {})}, within_s)
    return Finished(code=code, output=output, results=results)


def run_pytest(arguments: list[str], environment: dict[str, str], within_s: float = HANG_BOUND_S) -> tuple[int, str]:
    """Return pytest's exit code, and what it said at stdout and then at stderr. Raises TimeoutError when it hangs."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with tempfile.TemporaryDirectory(prefix="forked-") as folder:
        said = [str(Path(folder, name)) for name in ("stdout", "stderr")]
        server.stdin.write(json.dumps([arguments, environment, said]) + "\n")
        server.stdin.flush()
        ended = server.stdout.readline() if select.select([server.stdout], [], [], within_s)[0] else ""
        if not ended:
            _server.cache_clear()
            os.killpg(server.pid, signal.SIGKILL)  # with the run that it has forked
            server.wait()
            raise TimeoutError(f"pytest {' '.join(arguments)}: not at its end after {within_s} s")
        return int(ended), "".join(Path(path).read_text() for path in said)


@cache
def _server() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.harness.forked"]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )  # it ends when this process, and with it the pipe, does


def _import_what_a_start_imports() -> None:
    """Import it, in a child to find out what it is and then here: this process must stay as new as possible."""
    script = "import sys, pytest; pytest.main(['--list-scenarios', '-p', 'no:hypothesispytest', '-q']); "
    script += "print('\\n', *sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in found.stdout.splitlines()[-1].split():
        if not name.startswith(REWRITTEN) and name != "__main__":
            try:
                __import__(name)
            except ImportError:
                continue  # a name that some package made up for itself
    from perfgate.model.structured import adapter
    from perfgate.report.entries import Recorded, RelationEntry, RunFacts, ScenarioEntry

    for kind in (Recorded, ScenarioEntry, RunFacts, RelationEntry):
        adapter(kind)  # half of a replay's time, and the same in each


def _serve() -> None:
    """Fork for each line of stdin: arguments, environment, where stdout and stderr go; answer with the exit code."""
    _import_what_a_start_imports()
    import pytest

    gc.freeze()  # what is shared stays shared: no run looks through it for garbage
    for line in sys.stdin:
        arguments, environment, said = json.loads(line)
        child = os.fork()
        if not child:
            for number, path in enumerate([os.devnull, *said]):
                flags = os.O_RDONLY if not number else os.O_WRONLY | os.O_CREAT | os.O_APPEND
                os.dup2(os.open(path, flags), number)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = ["pytest", *arguments]
            sys.exit(int(pytest.main(arguments)))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    _serve()
