"""Time and memory of the integrity checker: ``python -m benchmarks.integrity [--records 20000000]``."""

from __future__ import annotations

import argparse
import resource
import sys
import time

import numpy as np

from perfgate.measure.faults.integrity import ACKED, Log, Sends, check_integrity

PARTITIONS, PRODUCERS = 6, 2


def main() -> int:
    """Make a clean history with one record lost, check it, and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=20_000_000)
    each = parser.parse_args().records // PRODUCERS
    sequence = np.arange(each)
    partition = (sequence % PARTITIONS).astype(np.int16)
    producers = [
        Sends(
            outcome=np.full(each, ACKED, np.int8),
            partition=partition,
            offset=sequence // PARTITIONS * PRODUCERS + producer,
        )
        for producer in range(PRODUCERS)
    ]
    logs = {}
    for number in range(PARTITIONS):
        count = len(sequence[number::PARTITIONS]) * PRODUCERS
        offset = np.arange(count - (number == 0))  # one record is missing at the end of the first partition
        logs[number] = Log(
            offset=offset,
            producer=(offset % PRODUCERS).astype(np.int32),
            sequence=offset // PRODUCERS * PARTITIONS + number,
        )
    begin = time.monotonic()
    found = check_integrity(producers, logs)
    seconds = time.monotonic() - begin
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024
    print(
        f"{PRODUCERS * each:,} records: {seconds:.1f} s, {gib:.2f} GiB at the most; lost {found.lost.total}, "
        f"{found.lost.first[0]}"
    )
    return 0 if found.lost.total == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
