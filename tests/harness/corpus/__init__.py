"""What recorded runs come to: verdicts, exit codes and reports, frozen while the code underneath changes its shape."""
