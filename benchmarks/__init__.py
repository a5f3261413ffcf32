"""Side-by-side measurements of the suite's own speed against its peers."""
