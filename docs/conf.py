"""The site of the documents, for Sphinx: `make docs`."""

project = "kafka-perf-gate"
copyright = ""
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4
