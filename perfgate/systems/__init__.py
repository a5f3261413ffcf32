"""The systems under test, a folder each."""
