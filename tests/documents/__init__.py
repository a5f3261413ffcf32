"""Pages of the documents that are made from the code."""
