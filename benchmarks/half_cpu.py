"""Is the nightly gate red when one broker has half of its CPU, and only then? ``python -m benchmarks.half_cpu``.

Records a baseline from separate runs of the gate (with the product's own commands), then runs the gate unchanged, then
with broker 1 of every cluster stopped for half of the time, in slices of 50 ms. Results go to results/half-cpu, and
a line per run to benchmarks/results/half_cpu.jsonl.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "results" / "half-cpu"
RAW = Path(__file__).parent / "results" / "half_cpu.jsonl"
SLICE_S = 0.05
METRICS = ("records_per_s", "broker_cpu_us_per_record")


@contextmanager
def one_broker_at_half_speed() -> Iterator[None]:
    """Stop broker 1 of whatever cluster runs for half of the time."""
    done = threading.Event()

    def limit() -> None:
        while not done.is_set():
            for process in psutil.process_iter(["cmdline"]):
                command = process.info["cmdline"] or []
                if "kafka.Kafka" in command and command[-1].endswith("broker-1.properties"):
                    with suppress(psutil.NoSuchProcess):
                        while not done.is_set() and process.is_running():
                            process.suspend()
                            done.wait(SLICE_S)
                            process.resume()
                            done.wait(SLICE_S)
            done.wait(SLICE_S)

    thread = threading.Thread(target=limit)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def run(name: str, row: str) -> None:
    """Run the gate once against the thresholds recorded here; print what came of it."""
    command = [sys.executable, "-m", "pytest", "--tier", "smoke", "-k", row, "-q", f"--results={FOLDER / name}",
               f"--thresholds={FOLDER / 'thresholds'}"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    document = json.loads((FOLDER / name / "latest" / "run.json").read_text())
    (entry,) = document["scenarios"]
    entries = [entry, *document["second_looks"]]
    with RAW.open("a") as lines:
        line = {"run": name, "started": document["started"], "exit": done.returncode, "verdict": entry["verdict"],
                "metrics": [{m: e["metrics"][m]["rounds"] for m in METRICS if m in e["metrics"]} for e in entries],
                "judgements": entry["judgements"]}  # fmt: skip
        lines.write(json.dumps(line) + "\n")
    measured = ", ".join(f"{j['metric']} {j['measured'] or 0:,.4g} ({j['verdict']})" for j in entry["judgements"])
    again = ", ".join(
        f"{metric} {second['metrics'][metric]['value']:,.4g}"
        for second in document["second_looks"]
        for metric in METRICS
    )
    second_look = f"; second look {again}" if again else ""
    print(f"{name}: exit {done.returncode}, {entry['verdict']}: {measured}{second_look}", flush=True)


def main() -> int:
    """Record, run unchanged, run limited."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--row", default="cross-az")
    parser.add_argument("--baseline", type=int, default=8, help="runs that the baseline is recorded from")
    parser.add_argument("--unchanged", type=int, default=10)
    arguments = parser.parse_args()
    thresholds = FOLDER / "thresholds"
    thresholds.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "thresholds" / "relations.toml", thresholds)
    for _ in range(arguments.baseline):
        run("baseline", arguments.row)
    accept = [sys.executable, "-m", "fixtures.report.proposal", "--results", FOLDER / "baseline", "--thresholds",
              thresholds, "--accept"]  # fmt: skip
    subprocess.run([str(part) for part in accept], cwd=ROOT, check=True)
    for _ in range(arguments.unchanged):
        run("unchanged", arguments.row)
    with one_broker_at_half_speed():
        run("limited", arguments.row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
