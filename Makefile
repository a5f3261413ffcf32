# The commands of the README. Each sets up what it needs in .venv and can be run again; ARGS goes to pytest.
# make itself exits 2 whenever a command failed, and prints the command's own exit code. Where that matters, call what
# these targets call: .venv/bin/kafka-perf-gate gate --target=embedded --tier=smoke

PYTHON ?= python3
SYSTEM ?= kafka
TARGET ?= embedded
TIER ?= smoke
RUN ?= results/latest
ARGS ?=
CHANGE ?=
REFERENCE ?=
COMPRESSION ?= 1
READS ?= 1
RUNS ?= 10
ACCEPT ?=
PART ?= load_engine hosts

VENV := .venv
PY := $(VENV)/bin/python
# What is said before Python has started; not with -q.
SAY = $(if $(filter -q% --quiet,$(ARGS)),:,echo)
LOCK := uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --python-version 3.11
# kafka-perf-gate, of this folder even where .venv is another checkout's.
GATE := $(PY) -m perfgate
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check

# What each target takes.
takes.gate := SYSTEM TARGET TIER REFERENCE ARGS
takes.side-by-side := TIER ARGS
takes.compare := SYSTEM TARGET TIER CHANGE AGAINST ARGS
takes.clean-up := TARGET ARGS
takes.baseline := SYSTEM TARGET TIER RUNS ACCEPT ARGS
takes.thresholds := ARGS
takes.pairs := ACCEPT ARGS
takes.history := ARGS
takes.capacity := RATE SIZE REPLICAS RETENTION CORES BANDWIDTH COMPRESSION READS RUN ARGS
takes.fetch := FOLDER ARGS
takes.doctor := TARGET ARGS
takes.test := ARGS
takes.test-slow := ARGS
takes.bench := PART ARGS
takes.catalogue := ARGS
takes.reference :=
takes.docs :=
takes.report := RUN

targets := help doctor gate compare side-by-side clean-up baseline thresholds pairs history capacity fetch test test-slow bench catalogue reference docs lint lock dist report clean
.PHONY: $(targets)

# What a target does not take would be dropped, and its plain run be taken for the one that was asked for. Only the
# command line is looked at: what is in the environment, or comes from another make, may be meant for others.
goals := $(or $(MAKECMDGOALS),help)
taken := $(foreach goal,$(if $(filter-out $(targets),$(goals)),$(targets),$(goals)),$(takes.$(goal)))
given := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(if $(value $(name)),$(name))))
slip := $(firstword $(filter-out $(taken) PYTHON JAVA_HOME SHELL VENV,$(given)))
takers := $(strip $(foreach target,$(targets),$(if $(filter $(slip),$(takes.$(target))),$(target))))
ifneq (,$(and $(slip),$(filter 0,$(MAKELEVEL))))
$(error make $(goals) takes no $(slip)$(if $(takers), (it is of make $(takers))); it takes: $(or $(taken),nothing)$(if $(takers),, (a variable of the environment stands before make: $(slip)=... make $(goals))))
endif

help:
	@echo 'make gate    run the scenarios and judge them   [SYSTEM=kafka|pulsar] [TARGET=embedded] [TIER=smoke|nightly-1h|nightly|full] [ARGS="-k batch"]'
	@echo 'make gate REFERENCE=FILE.toml   the same, held against a reference that is measured in turns with it'
	@echo 'make compare CHANGE=changes/linger-5.toml   what would this change do?   [ARGS="--budget 10m -k batch-1k"]'
	@echo 'make compare TARGET=OLD.toml AGAINST=NEW.toml   two clusters that exist, loaded in turns'
	@echo 'make side-by-side   Kafka, then Pulsar, and the figures of what means the same on both   [TIER=nightly] [ARGS="-k paced-500"]'
	@echo 'make clean-up TARGET=FILE.toml   put back what ended runs have left on real brokers   [ARGS="--run RUN-ID"]'
	@echo 'make baseline   the runs that thresholds of this machine need, then the thresholds   [RUNS=10] [TIER=smoke] [ACCEPT=1]'
	@echo 'make pairs      by what recorded pairs of like clusters differ (A/A), so that three pairs tell   [ACCEPT=1]'
	@echo 'make thresholds   what the recorded runs would change in thresholds/   [ARGS=--accept]'
	@echo 'make history   the runs so far, what has drifted, and a page of them: results/history.html   [ARGS="--prune-before 2026-01-31"]'
	@echo 'make capacity RATE=20000 SIZE=1024 REPLICAS=3 RETENTION=7d   brokers, disk, bandwidth, from a measured knee   [RUN=results/latest]'
	@echo 'make fetch FOLDER=DIR   all that runs fetch, for a machine without internet (docs/air-gapped.md)'
	@echo 'make doctor  what is here and what lacks, each with its remedy: in seconds   [TARGET=FILE.toml]'
	@echo 'make test    test the suite itself              [ARGS="-k thresholds"]'
	@echo 'make test-slow   the rest of them: every target, old Kafka, long faults'
	@echo 'make bench   measure the load engine beside Kafka'"'"'s own tools, about 25 min, and what load hosts cost, 8 min   [PART=hosts] [ARGS="--rounds 7"]'
	@echo 'make report  build a run'"'"'s HTML report again     [RUN=results/<run-id>]'
	@echo 'make catalogue   docs/catalogue.md again, from the declarations and relations; [ARGS="RUN.json ..."]: and its figures'
	@echo 'make reference   docs/reference again, from the code'
	@echo 'make docs    the documents as a site that opens from disk, with search: docs/_build/docs/index.html'
	@echo 'make lint    ruff and mypy --strict'
	@echo 'make lock    requirements*.lock and requirements-lowest.txt again, after a change of requirements*.txt or pyproject.toml (needs uv)'
	@echo 'make dist    the package: wheel and sdist in dist/'
	@echo 'make clean   remove .venv and the caches inside the checkout; results stay'

gate: $(VENV)/.run
	@$(SAY) "performance gate, $(SYSTEM), target $(TARGET), tier $(TIER): starting pytest"
	@$(GATE) gate '--target=$(TARGET)' '--tier=$(TIER)' $(if $(REFERENCE),'--reference=$(REFERENCE)') $(ARGS) $(if $(filter-out kafka,$(SYSTEM)),'--system=$(SYSTEM)')

compare: $(VENV)/.run
	@test -n '$(CHANGE)$(AGAINST)' || { echo 'name the change: make compare CHANGE=changes/linger-5.toml (others: $(wildcard changes/*.toml))'; exit 2; }
	@$(GATE) compare $(if $(CHANGE),'$(CHANGE)') '--target=$(TARGET)' '--tier=$(TIER)' $(if $(AGAINST),'--against=$(AGAINST)') $(ARGS) $(if $(filter-out kafka,$(SYSTEM)),'--system=$(SYSTEM)')

side-by-side: $(VENV)/.run
	@$(GATE) side-by-side '--tier=$(TIER)' $(ARGS)

clean-up: $(VENV)/.run
	@test '$(TARGET)' != embedded || { echo 'name the brokers: make clean-up TARGET=FILE.toml [ARGS="--run RUN-ID"]'; exit 2; }
	@$(GATE) clean-up '$(TARGET)' $(ARGS)

baseline: $(VENV)/.run
	@$(GATE) baseline --runs '$(RUNS)' '--target=$(TARGET)' '--tier=$(TIER)' $(if $(ACCEPT),--accept) $(ARGS) $(if $(filter-out kafka,$(SYSTEM)),'--system=$(SYSTEM)')

thresholds: $(VENV)/.run
	@$(GATE) thresholds $(ARGS)

pairs: $(VENV)/.run
	@$(GATE) pairs $(if $(ACCEPT),--accept) $(ARGS)

history: $(VENV)/.run
	@$(GATE) history $(ARGS)

capacity: $(VENV)/.run
	@test -n '$(RATE)' -a -n '$(SIZE)' -a -n '$(REPLICAS)' -a -n '$(RETENTION)' || { echo 'name the load: make capacity RATE=20000 SIZE=1024 REPLICAS=3 RETENTION=7d   [CORES=8] [BANDWIDTH=100] [COMPRESSION=0.5] [READS=2] [RUN=results/latest]'; exit 2; }
	@$(GATE) capacity '--rate=$(RATE)' '--size=$(SIZE)' '--replicas=$(REPLICAS)' '--retention=$(RETENTION)' '--cores=$(CORES)' '--bandwidth=$(BANDWIDTH)' '--compression=$(COMPRESSION)' '--reads=$(READS)' '$(RUN)' $(ARGS)

doctor: $(VENV)/.run
	@$(GATE) doctor $(if $(filter embedded,$(TARGET)),,--target='$(TARGET)') $(ARGS)

fetch: $(VENV)/.run
	@test -n '$(FOLDER)' || { echo 'name the folder: make fetch FOLDER=DIR [ARGS="--kafka-version 3.9.1"]'; exit 2; }
	@$(GATE) fetch '$(FOLDER)' $(ARGS)

test: $(VENV)/.dev
	@$(PY) -m pytest tests/harness -m 'not slow' $(ARGS)

test-slow: $(VENV)/.dev
	@$(PY) -m pytest tests/harness -m slow $(ARGS)

bench: $(VENV)/.dev
	@set -e; for part in $(PART); do $(PY) -m benchmarks.$$part $(ARGS); done

catalogue: $(VENV)/.run
	@$(PY) -m tests.scenarios.document $(ARGS)

reference: $(VENV)/.run
	@$(PY) -m tests.documents.reference

docs: $(VENV)/.dev
	@$(PY) -m sphinx -q -W --keep-going -b html -c docs . docs/_build && echo 'docs/_build/docs/index.html'

lock:
	@command -v uv >/dev/null || { echo 'this needs uv (pip install uv)'; exit 2; }
	$(LOCK) requirements.txt -o requirements.lock
	$(LOCK) requirements-dev.txt -o requirements-dev.lock
	$(LOCK) requirements-hosts.txt -o requirements-hosts.lock
	$(LOCK) requirements-agent.txt -o perfgate/load/requirements-agent.lock
	$(LOCK) requirements-iam.txt -o requirements-iam.lock
	python3 -m tests.documents.lowest

dist: $(VENV)/.run
	@$(PY) -m hatchling build --clean --directory dist

lint: $(VENV)/.dev
	@$(PY) -m ruff format --check . && $(PY) -m ruff check . && $(PY) -m mypy

report: $(VENV)/.run
	@$(GATE) report '$(RUN)'

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .benchmarks

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(0 if sys.version_info >= (3, 11) else f"Python 3.11 or newer is needed, {sys.executable} is {v}; name another: make PYTHON=python3.12 ...")'
	@echo 'creating $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: $(VENV)/.python requirements.lock requirements-no-deps.txt pyproject.toml
	@echo 'installing requirements.lock into $(VENV), once: a minute or two'
	@$(PIP_INSTALL) --require-hashes -r requirements.lock
	@$(PIP_INSTALL) --require-hashes --no-deps -r requirements-no-deps.txt
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock requirements-hosts.lock
	@echo 'installing requirements-dev.lock and requirements-hosts.lock into $(VENV)'
	@$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	@$(PIP_INSTALL) --require-hashes -r requirements-hosts.lock
	@touch $@
