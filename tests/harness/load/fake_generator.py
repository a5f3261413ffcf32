"""Generator processes that speak the protocol and send nothing, and the round that they are started for."""

FAKE = """
import json, sys, time
READ = dict(read=10, received=10, received_in_window=5, received_bytes_in_window=500, foreign=0, corrupt=0, missed=0,
    duplicated=0, reordered=0, redelivered=0, negative_latencies=0, fetches=0, fetch_ms=0)
def now(): return time.monotonic() + spec.get("fake_ahead_s", 0)
def say(**message): print(json.dumps(message), flush=True)
def hear(name):
    while name not in (message := json.loads(sys.stdin.readline())): pass
    return message[name]
spec = json.loads(sys.stdin.readline())
say(event="ready")
start = hear("start")
time.sleep(max(0, start - now()) + spec.get("fake_late_s", 0))
say(event="started", at=now())
for i in range(40):
    say(event="progress", at=start + i / 20, attempted=10 * i, done=10 * i, failed=0, last_error="")
opens, closes = hear("window")
time.sleep(max(0, closes - now()))
say(event="result", attempted_in_window=5, acked_in_window=5, acked_bytes_in_window=500, pushback_s=0,
    pushback_in_window_s=0, committing_in_window_s=0, stalled_in_window_s=0,
    attempted=10, acked=10, acked_by_partition=[10],
    markers_by_partition=[0], latency_by_partition=[], latency_by_topic=[], due_in_window=5, timed_out_in_window=0,
    failed={}, errors={}, unresolved=0, unsent=0, withdrawn=0, throttled_ms=0, clients=1,
    cpu_cores=0.1, busiest_thread_cores=0.1, rss_mib=50, **(READ if spec.get("role") == "consume" else {}))
"""
JOURNALING = """
import numpy as np
from pathlib import Path
from perfgate.load.history import OUTCOME, SEND, Journal, outcomes_path, sends_path
""" + FAKE.replace(
    'say(event="result"',
    """
if spec.get("history"):
    folder = Path(spec["history"])
    outcomes = Journal(str(outcomes_path(folder, spec["first"])))
    Journal(str(sends_path(folder, spec["first"]))).write(np.array([(now(), 0, 10, 0)], SEND))
    for sequence in range(10 - spec.get("fake_lost", 0)):
        outcomes.write(np.array([(now(), sequence, sequence, 0, 0)], OUTCOME))
say(event="result\"""",
)
"""Writes down what becomes of its ten records, at the end of the window; of `fake_lost` it does not."""
MARK = "generator of test_hosts"
WORKER = ("-c", f"# {MARK}\n{FAKE}")
STAYS = ("-c", f"# {MARK}\n{FAKE[: FAKE.index('start =')]}\nfor line in sys.stdin: pass")
"""A generator that minds neither silence nor time: only the end of its pipe."""
JOURNALS = ("-c", f"# {MARK}\n{JOURNALING}")
FILLS = (
    "-c",
    f"# {MARK}"
    """
import os, resource, time
from pathlib import Path
import numpy as np
from perfgate.load.history import SEND, Journal, sends_path
from perfgate.load import worker
class Filling:
    errors, done = {}, 0
    def run(self, start):
        journal = Journal(str(sends_path(Path(control.spec["history"]), 0)))
        while True:
            journal.write(np.zeros(1000, SEND))
            self.done += 1000
            time.sleep(0.001)
    def progress(self):
        return {"attempted": self.done, "done": self.done, "failed": 0}
if limit := int(os.environ.get("FAKE_FSIZE", 0)):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
control = worker.Control()
worker.emit("ready")
worker.run(control, [Filling()])
""",
)
"""Writes to its journal without an end, in the loop of the real generator process."""
