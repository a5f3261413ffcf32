"""What is measured when, and the analysis of faults."""
