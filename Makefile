# Crash points are compiled in (-DMPB_INJECT) where tests run; a wheel built by pip alone has none.
# Everything a fresh machine needs beyond Python 3.11, gcc and make is installed into .venv: by `install`, and what
# only `check` needs by `check`. `editable_mode=compat` puts the folder itself on Python's path, as an installed package
# is: the finder that setuptools makes otherwise costs each start of Python, and each test's broker, 10 ms.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# With bytecode written, whatever the surroundings say: every process of a run would rewrite every test file anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(PY) -m pytest
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
SLOW_PROCESSES ?= $(shell expr $$(nproc) + 3)
.PHONY: install run check unit test clients soak cluster-chaos fuzz filestates mutants bench docs clean
install: $(VENV)/installed
$(VENV)/installed: pyproject.toml $(wildcard native/*/*.[ch])
	@rm -rf build
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	CFLAGS=-DMPB_INJECT=1 $(PIP_INSTALL) --config-settings editable_mode=compat --editable '.[test]'
	$(PY) -m compileall -q mpbroker
	touch $@
$(VENV)/check-tools: pyproject.toml $(VENV)/installed
	$(PY) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["check"], sep="\n")' \
		| $(PIP_INSTALL) --requirement /dev/stdin
	touch $@
run: install
	$(PY) -m mpbroker demo
check: $(VENV)/check-tools
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(MAKE) -s -C native check PYTHON=$(abspath $(PY)) CLANG_FORMAT=$(abspath $(VENV)/bin/clang-format)
# Groups of tests go to processes (tests/harness/groups.py). A process that dies ends the run, red: pytest-xdist would
# put another in its place, and wait for ever for tests that neither has.
SHARED := --dist loadscope --no-loadscope-reorder --max-worker-restart 0
unit: install
	$(PYTEST) -m 'not slow' -p no:benchmark --numprocesses auto $(SHARED) $(ARGS)
# Many slow tests wait more than they work, so three more processes than there are cores; what belongs together, and what
# takes longest, stands in tests/harness/groups.py.
test: unit
	$(PYTEST) -m slow -p no:benchmark --numprocesses $(SLOW_PROCESSES) $(SHARED) $(ARGS)
# Programs for clients of other languages, where Java, Go or Node are: with them, `make test` runs them too.
clients: install
	$(PY) -m tests.clients.build
fuzz: install
	$(PY) tests/fuzz/fuzz_decode.py --frames 10000000 --seed 1
	$(PY) -m tests.fuzz.fuzz_records --frames 300000 --seed 1
	$(MAKE) -s -C native test SAN=address ONLY=record_batch ARGS=10000000
soak: install
	$(PY) -m tests.chaos.soak --kills $(or $(KILLS),300) --seed $(or $(SEED),1)
	$(PY) -m tests.chaos.soak --kills $(or $(KILLS),300) --seed $(or $(SEED),1) --with all
	$(PY) -m tests.chaos.transaction_soak --kills $(or $(KILLS),1000) --seconds 3600
cluster-chaos: install
	$(PY) -m tests.cluster.chaos --seconds $(or $(SECONDS),120) --seed $(or $(SEED),1)
filestates: install
	$(PY) -m tests.filestates --states $(or $(STATES),10000) --seed $(or $(SEED),1)
	$(PY) -m tests.filestates.power_cut
# The nearest tests are those that touched a function when `unit` and the C programs were watched once, which takes
# three times as long; `$(PY) -m tests.mutation.record` watches every test.
mutants: install
	test -d .mutants/touched || { $(PY) -m tests.mutation.record unit && $(PY) -m tests.mutation.record programs; }
	$(PY) -m tests.mutation --changes $(or $(CHANGES),300) --seed $(or $(SEED),1) $(ARGS)
bench: install
	$(PY) -m perf.bench $(ARGS)
docs: install
	$(PY) -m mpbroker.config.document
	$(PY) -m mpbroker.server.api_document
clean:
	rm -rf $(VENV) .mutants build native/build .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info mpbroker/_native*.so
