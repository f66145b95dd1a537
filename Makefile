# Everything happens in .venv and out/, both ignored by git. PYTHON chooses the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := src/fadecount/checks.py,src/fadecount/rounding.py,src/fadecount/mechanisms/*,src/fadecount/noise/*,src/fadecount/counters/*
CORE_TESTS := tests/mechanisms tests/counters tests/noise \
	$(addprefix tests/test_,rounding.py errors.py durations.py randomness.py package.py) \
	$(addprefix src/fadecount/,mechanisms noise counters checks.py rounding.py)
# One thread of linear algebra in each worker: threads that wait for a busy core spin.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses=2 --dist=loadfile --basetemp=out/pytest --durations=15

# Pictures need a cache for fonts: in the checkout, not in the home of the user.
export MPLCONFIGDIR := $(CURDIR)/out/matplotlib

.PHONY: $(shell grep -hoE '^[a-z-]+:' Makefile | tr -d :)
.DEFAULT_GOAL := help

help: ## show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/demo ## replay a year of flights live through the service, beside a small website that is counted, on port 8000 or PORT=…; the address is printed
	$(BIN)/python examples/live_flights.py --out out/demo --port $(or $(PORT),8000) $(DEMO)

test: lint types imports unit ## set everything up and run every check

lint: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/test
	$(BIN)/mypy

imports: $(VENV)/test
	$(BIN)/lint-imports

# Coverage doubles the time of a test: those marked no_cover go through lines many times that others cover.
unit: $(VENV)/test programs
	@mkdir -p out
	$(PYTEST) --cov --cov-report= $(CORE_TESTS)
	$(BIN)/coverage report --include='$(CORE)' --fail-under=100
	$(PYTEST) --numprocesses=3 $(addprefix --ignore=,$(CORE_TESTS))

bench-peers: $(VENV)/test $(VENV)/peers ## the same, beside every other library that installs
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.promise

audit: $(VENV)/test ## audit mechanisms as an outsider would
	mkdir -p out/audit
	$(BIN)/fadecount audit --epsilon 1 --samples 2000000 --ages 0,1,3,7,15
	$(BIN)/fadecount audit --epsilon 0.5 --exponent 2 --samples 2000000 --ages 0,1,3,7,15
	$(BIN)/python -c 'import fadecount as fc; print(fc.Linear(epsilon=0.5).to_json())' > out/audit/linear.json
	$(BIN)/fadecount audit --plan out/audit/linear.json --samples 2000000 --ages 1,2,4
	$(BIN)/python -c 'import fadecount as fc; print(fc.Refresh(window=7, epsilon_current=1.5, epsilon_past=0.5).to_json())' > out/audit/refresh.json
	$(BIN)/fadecount audit --plan out/audit/refresh.json --samples 2000000 --ages 0,1,3,7,15

mutants: $(VENV)/test ## break the source in many ways and show which test notices each
	$(BIN)/python -m campaigns.mutants

windows: $(VENV)/test ## how often the intervals of windows hold the truth, over 100,000 windows per mechanism
	$(BIN)/python -m campaigns.windows

figures: $(VENV)/test ## how often the bands of figures and views hold the truth, over 100,000 of each kind
	$(BIN)/python -m campaigns.figures

figures-accuracy: $(VENV)/demo ## how far figures of a year of flights are from the truth, through run
	$(BIN)/python -m campaigns.figures.accuracy

exactness: $(VENV)/test ## compare millions of draws with exact arithmetic
	$(BIN)/python -m campaigns.exactness

block-losses: $(VENV)/test ## compare block counters with brute force, linear programs and single steps
	$(BIN)/python -m campaigns.blocks

block-plans: $(VENV)/test ## plan block counters for random targets, and compare them with exhaustive search
	$(BIN)/python -m campaigns.planning

notebooks: $(VENV)/test ## run the notebooks and keep what they show
	$(BIN)/python -m tools.notebooks

readme-picture: $(VENV)/test ## draw the picture of the README again: a count and its fading curve
	$(BIN)/python -m tools.picture

site: $(VENV)/test ## build the documentation as a site in out/site, without a network
	$(BIN)/python -m tools.build_site

docs-serve: $(VENV)/test ## build the site and show it on port 8001 (PORT=0 for any)
	$(BIN)/python -m tools.build_site --serve $(or $(PORT),8001)

package: $(VENV)/test ## build wheel and source distribution in out/dist, and run a part of the tests from the latter
	rm -rf out/dist out/package && mkdir -p out/package
	$(BIN)/python -m hatchling build -d out/dist
	tar xzf out/dist/*.tar.gz -C out/package --strip-components=1
	cd out/package && PYTHONPATH=src ../../$(BIN)/python -m pytest -q --basetemp=../package-tests tests/test_*.py tests/mechanisms tests/cli

crash: $(VENV)/test ## kill a writing process 10,000 times and hold its store to the journal
	$(BIN)/python -m campaigns.crash

setup: $(VENV)/test programs ## everything that the tests need: Python packages, and programs by apt-get where it may

programs: browser java proxies

# Installs a Debian package where this user may. Says what it does, or what is not tested without the package.
apt = { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "installing $(1) by apt-get, for the tests" && \
	{ apt-get install -y --no-install-recommends $(1) || { apt-get update && apt-get install -y --no-install-recommends $(1); }; } \
	>/dev/null 2>&1; } || echo "not tested here: $(2)"

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	$(call apt,chromium,the page in a browser (no Chromium; apt-get install chromium))

java:
	@command -v java >/dev/null || \
	$(call apt,default-jre-headless,counting on Spark (no Java; apt-get install default-jre-headless))

# Unpacked in out/, not installed: an installed proxy would start to serve.
proxies:
	@for name in nginx caddy; do \
	command -v $$name >/dev/null || test -e out/debian/$$name || ( command -v apt-get dpkg-deb >/dev/null && mkdir -p out/debian && \
	cd out/debian && echo "unpacking $$name in out/debian, for the tests" && \
	{ apt-get download $$name || { apt-get update && apt-get download $$name; }; } >/dev/null 2>&1 && \
	dpkg-deb -x $${name}_*.deb . && touch $$name ) || echo "not tested here: the service behind $$name (no $$name)"; done

neighbours: $(VENV)/test ## 2,000 pairs of inputs that differ by one unit, through every intake
	$(BIN)/python -m campaigns.neighbours
	$(BIN)/python -m campaigns.spark.neighbours

load: $(VENV)/test ## what the service carries, against plain SQLite and bare Starlette in the same run; sizes: LOAD=, SCALE=
	$(BIN)/python -m campaigns.service.load $(LOAD)
	$(BIN)/python -m campaigns.service.scale $(SCALE)

attack: $(VENV)/test ## strangers, and one writer, attack the service for a minute each: memory must stay below 200 MB, and others be answered; sizes: ATTACK=
	$(BIN)/python -m campaigns.service.attack $(ATTACK)

website: $(VENV)/test ## thirty days of a small website: errors of its figures, and which pages appear
	$(BIN)/python -m campaigns.service.site $(SITE)

key-times: $(VENV)/test ## do answers take longer for hidden keys than for new ones?; sizes: TIMES=
	$(BIN)/python -m campaigns.service.key_times $(TIMES)

strangers: $(VENV)/test ## a million visits with random pages, agents and addresses: memory must stay flat; sizes: STRANGERS=
	$(BIN)/python -m campaigns.service.strangers $(STRANGERS)

soak: $(VENV)/test ## half an hour of load: memory must stay flat
	$(BIN)/python -m campaigns.service.soak --minutes 30 $(SOAK)

service-crash: $(VENV)/test ## kill the service under load: 500 times on SQLite, 200 times on PostgreSQL with two processes
	$(BIN)/python -m campaigns.service.crash --kills 500 --postgres 200 $(CRASH)

service-fuzz: $(VENV)/campaigns ## 10,000 requests made from the interface's description
	$(BIN)/python -m campaigns.service.fuzz --cases 10000 $(FUZZ)

spark-crash: $(VENV)/test ## kill a Spark cluster again and again; its figures must not change
	$(BIN)/python -m campaigns.spark.crash

spark-bench: $(VENV)/test ## what privacy costs on Spark, against groupBy without noise
	$(BIN)/python -m benchmarks.spark

bench: $(VENV)/test ## measure speed against a reference in the same run
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.files
	$(BIN)/python -m benchmarks.streams
	$(BIN)/python -m benchmarks.figures
	$(BIN)/python -m benchmarks.startup

fuzz: $(VENV)/fuzz ## a million mutated inputs for the readers, and the two CSV readers compared
	$(BIN)/python -m campaigns.sources.guided 100000
	$(BIN)/python -m campaigns.sources.fuzz --inputs 1000000
	$(BIN)/python -m campaigns.sources.fuzz --differential 3000

$(VENV)/%: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

clean: ## remove everything that was made
	rm -rf $(VENV) out .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
