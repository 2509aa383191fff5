# Needs nothing but Python >= 3.11 and make; everything else goes into .venv.

PYTHON ?= python3
BIN := .venv/bin
# In three processes, because tests of sweeps wait for most of their time; each takes 1 to 2 GB. Tests
# that share something dear are a group, which one process runs.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 3 --dist loadgroup --no-loadscope-reorder
PIP := $(BIN)/pip install --progress-bar off --disable-pip-version-check --constraint constraints.txt

comma := ,
# Installs what it is given, and prints a line for each large download and for the rest.
define install
	@echo "installing into .venv: 2.3 GB with torch for CPUs, some minutes"
	@rm -f .venv/failed; { $(PIP) $(1) || touch .venv/failed; } | awk ' \
		/Downloading .*\([0-9.]+ MB\)/ && substr($$(NF - 1), 2) + 0 >= 10 { print "  " $$1 " " $$2 ", " substr($$(NF - 1), 2) " MB" } \
		/^Installing collected packages/ { print "  unpacking " NF - 3 " packages" } { fflush() }'; \
		test ! -e .venv/failed
endef

# Bytecode is kept, whatever the environment says, because a sweep starts many processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help plotly-js quickstart docs docs-record golden test check test-slow papers-smoke test-real test-postgres cluster-test release-check chaos screenshots bench bench-train bench-sweep bench-costs bench-hicl bench-gpu bench-st bench-eval bench-resampling bench-statistics bench-choosing bench-seeds bench-leaderboard bench-modules bench-size bench-store bench-rebuild bench-cluster bench-scale bench-dashboard bench-search bench-search-cost bench-search-parallel clean

help:  ## show this
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 24

quickstart: .venv/installed  ## run a first sweep and show its leaderboard
	$(BIN)/cse-sweep sweeps/quickstart.yaml

docs: .venv/installed-dev  ## update the outputs in README.md and docs/, and the tables of docs/api.md and docs/statistics.md
	$(BIN)/python tests/documents/doc_api.py

golden: .venv/installed-dev  ## regenerate tests/golden/outputs/: what commands, page and stores show
	PYTHONPATH=tests/documents:tests/fixtures $(BIN)/python tests/golden/golden_outputs.py

docs-record: .venv/installed-dev  ## rerun the quickstart for the outputs in docs/, three minutes; then: make docs golden
	$(BIN)/python tests/documents/doc_record.py

test: .venv/installed-dev  ## lint, types, imports, tests
	@tests/timed.sh 'make --no-print-directory check' '$(PYTEST)'

check: .venv/installed-dev  ## lint, types and imports only
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

test-slow: .venv/installed-dev  ## run the tests that take minutes; SLOW="tests/cse_platform" selects a folder
	$(PYTEST) -m slow $(SLOW)

papers-smoke: .venv/installed-dev  ## rehearse every sweep of the papers with --smoke, 20 to 45 minutes on two cores; PAPER=rankcse selects one
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 2 -m slow tests/end_to_end/test_papers_smoke.py $(if $(PAPER),-k $(PAPER))

test-real: .venv/installed-real  ## run the tests with real data and a real encoder
	$(BIN)/pytest -m real

test-postgres: .venv/installed-dev  ## run the tests of the stores on a temporary PostgreSQL server
	tests/with_postgres.sh $(BIN)/pytest -m postgres

cluster-test: .venv/installed-dev  ## test clusters: four nodes, and separate hosts whose links are cut; 20 minutes
	OMP_NUM_THREADS=1 $(BIN)/pytest -m '' $(addprefix tests/end_to_end/test_,cluster_nodes.py separate_hosts.py two_drivers.py)

release-check:  ## build sdist and wheel, install them into a fresh environment and run a sweep there
	PYTHON=$(PYTHON) tests/release_check.sh

chaos: .venv/installed-dev  ## break sweeps at random moments and look for what is lost; CHAOS="--seed 3 --only disks"
	$(BIN)/python chaos/chaos.py $(CHAOS)

plotly-js: .venv/installed  ## build the JavaScript that draws the page's figures; needs Node and the network
	dashboards/plotly-bundle/build.sh

screenshots: .venv/installed-dev  ## take the README's screenshots of the page and MLflow, in Chromium
	$(BIN)/python dashboards/screenshots.py docs/images

bench-hicl: .venv/installed  ## time a step of SimCSE and of HiCL on texts of 64 to 512 word pieces
	$(BIN)/python benchmarks/hicl_cost.py

bench-eval: .venv/installed-real  ## compare an evaluation with sentence-transformers and with training, on real data
	$(BIN)/python benchmarks/evaluation_cost.py
	$(BIN)/python benchmarks/transfer_cost.py

bench-train: .venv/installed-real  ## compare a training step with sentence-transformers' trainer and a bare loop; BENCH="--pairs 3"
	$(BIN)/python benchmarks/train_speed.py $(BENCH)

bench-sweep: .venv/installed  ## compare the overhead of a sweep with plain Ray Tune
	$(BIN)/python benchmarks/sweep_overhead.py $(BENCH)

bench-costs: .venv/installed  ## compare each method's step with SimCSE's, and its growth; BENCH="--rounds 3"
	$(BIN)/python benchmarks/step_costs.py $(BENCH)

bench-gpu: .venv/installed  ## measure training on a GPU: speed, share of the peak, resuming; 8 minutes; BENCH="--rehearse"
	CSE_CACHE=$$(mktemp -d) $(BIN)/python benchmarks/gpu_speed.py $(BENCH)

bench-st: .venv/installed  ## compare the method st on a GPU with a plain script of its library, and check resuming; BENCH="--rehearse"
	CSE_CACHE=$$(mktemp -d) $(BIN)/python benchmarks/st_on_gpu.py $(BENCH)

bench: bench-train bench-sweep bench-costs bench-eval bench-hicl  ## compare training, sweeps and evaluation with their peers

bench-resampling: .venv/installed  ## compare 10,000 resamples of a comparison with scipy
	$(BIN)/python benchmarks/resampling_cost.py

bench-statistics: .venv/installed  ## measure every error rate of docs/statistics.md by simulation, 8 minutes on two cores; BENCH="races --share 0.1"
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/error_rates/measure.py $(BENCH)

bench-choosing: .venv/installed-real  ## measure what selecting on STS-B dev gains, with 200 trials on real data, 20 minutes of a core; BENCH="--seeds 1"
	nice $(BIN)/python benchmarks/choosing_on_dev.py runs/choosing $(BENCH)

bench-seeds: .venv/installed  ## measure how much equal seeds correlate between configurations, on real data, 30 minutes of a core; BENCH="--seeds 4"
	nice $(BIN)/python benchmarks/seed_correlation.py runs/seeds $(BENCH)

bench-leaderboard: .venv/installed  ## time queries of a leaderboard with a million trials, and of MLflow; BENCH="--trials 100000"
	$(BIN)/python benchmarks/leaderboard_speed.py $(BENCH)

bench-modules: .venv/installed-dev  ## print the modules that a query, each page view, a dev point and a sweep pass
	$(BIN)/python benchmarks/modules_passed.py

bench-size: .venv/installed  ## print the lines of code, the records and the functions of each room
	$(BIN)/python benchmarks/code_size.py

bench-store: .venv/installed-dev  ## measure the driver's load from 64 busy workers, on SQLite and PostgreSQL; BENCH="--seconds 10"
	tests/with_postgres.sh $(BIN)/python benchmarks/store_load.py $(BENCH)

bench-rebuild: .venv/installed-dev  ## measure the cost of cse-leaderboard rebuild with 100,000 trials, on SQLite and PostgreSQL; BENCH="--trials 5000"
	tests/with_postgres.sh $(BIN)/python benchmarks/rebuild_speed.py $(BENCH)

bench-cluster: .venv/installed-dev  ## measure how well sleeping trials use 1, 2 and 4 nodes
	$(BIN)/python benchmarks/cluster_efficiency.py $(BENCH)

bench-scale: .venv/installed-dev  ## send thousands of trials at once through driver and stores, on SQLite and PostgreSQL; BENCH="--trials 500"
	tests/with_postgres.sh $(BIN)/python benchmarks/cluster_scale.py $(BENCH)

bench-search: .venv/installed  ## measure how fast searches find the best, in simulated time; BENCH="--repetitions 10"
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/search/search_speed.py $(BENCH)

bench-search-cost: .venv/installed  ## time an ask, a report and a tell with 1,000 trials, for each sampler; BENCH="--trials 200"
	$(BIN)/python benchmarks/search_cost.py $(BENCH)

bench-search-parallel: .venv/installed  ## measure what a search loses by eight trials at once, for each sampler; BENCH="--repetitions 5"
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/search_parallel.py $(BENCH)

bench-dashboard: .venv/installed-dev  ## time every view of the page with 100,000 trials; BENCH="--trials 10000"
	$(BIN)/python benchmarks/dashboard_speed.py $(BENCH)

clean:  ## remove the virtual environment and all caches, but no results
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python >= 3.11 is needed; try: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed: .venv/bin/pip pyproject.toml constraints.txt
	$(call install,--editable .)
	@touch $@

.venv/installed-dev: .venv/bin/pip pyproject.toml constraints.txt
	$(call install,--editable '.[dev]')
	@touch $@ .venv/installed

.venv/installed-real: .venv/bin/pip pyproject.toml constraints.txt
	$(call install,--editable '.[dev$(comma)real]')
	@touch $@ .venv/installed-dev .venv/installed
