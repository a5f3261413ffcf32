"""Rows that exist to provoke the suite; the live tests run them in a gate of their own."""
