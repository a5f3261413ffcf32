"""Workload files of other tools, read as scenarios of this suite; what cannot be carried over is noted."""
