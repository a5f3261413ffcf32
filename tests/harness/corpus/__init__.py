"""Recorded runs, with verdicts, exit codes and reports frozen while the code underneath changes its shape."""
