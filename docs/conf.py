"""The site of the documents, for Sphinx: `make docs`. Its source is the checkout, since the documents link into it."""

project = "kafka-perf-gate"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "thresholds/README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = ["docs/_build"]
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4
