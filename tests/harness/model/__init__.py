"""The words as types."""
