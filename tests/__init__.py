"""The suite, the scenarios it runs, and the tests of the suite itself."""
