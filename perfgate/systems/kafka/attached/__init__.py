"""Real brokers, described by a file: what may be done to them, and how it is put back."""
