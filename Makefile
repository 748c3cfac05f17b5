# `make run` and `make test` are all that a fresh Debian 12 machine needs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RUN_ARGS ?= --workload register --nemesis partition --time-limit 30
FUZZ_SECONDS ?= 1800
LABS ?= 1
SIDE_BY_SIDE = $(if $(filter-out 1,$(LABS)),-n $(LABS) --dist worksteal)
SLOWEST := --durations=25 --durations-min=5
RERUNS := -p rerunfailures --reruns 2 --only-rerun ^Starved:
NO_LAB := $(BIN)/python -m pytest -rfEsR $(SLOWEST) -n 3 --dist loadfile \
	-m "not lab and not selftest and not long"
# An environment may forbid byte code; without it every process rewrites the asserts of all tests.
export PYTHONDONTWRITEBYTECODE :=
C_SOURCES := $(wildcard checkers/csrc/*.[ch] checkers/csrc/*/*.[ch])

.PHONY: help setup run test tools tools-of-labs test-computing test-starting test-no-lab test-lab \
	coverage lint check lab-up lab-down vagrant-up vagrant-down vm-up vm-down podman-up podman-down bench \
	spec-selftest nemesis-selftest systems-selftest labs-selftest proofs mutants sanitize fuzz corpora wheel clean

help:
	@sed -n 's/^## //p' Makefile

## make run        set up what is missing, then partition a five-node etcd cluster and judge it
run: setup
	$(BIN)/dstest run $(RUN_ARGS)

## make test       set up what is missing, then all tests (the lab tests need root). What only computes
##                 goes on beside the labs, which leave much of the host idle, and is told after them
test: tools tools-of-labs
	@mkdir -p build
	@nice -n 5 env --default-signal=INT,QUIT $(MAKE) -s test-computing >build/test-computing.log 2>&1 & beside=$$!; \
	$(MAKE) -s test-lab; of_labs=$$?; wait $$beside; computing=$$?; cat build/test-computing.log; \
	$(MAKE) -s test-starting; starting=$$?; exit $$((of_labs || computing || starting))

tools: setup
	-@.ci/setup browser
	-@.ci/setup quint $(VENV)
	-@.ci/setup format

tools-of-labs: setup
	@.ci/setup vagrant
	@.ci/setup podman

## make test-no-lab   the part of it that needs no lab, on two cores
test-no-lab: tools
	$(NO_LAB) $(TEST_ARGS)

test-computing: tools
	$(NO_LAB) tests/unit tests/property tests/corpus tests/detection $(TEST_ARGS)

test-starting: tools
	$(NO_LAB) tests/cli tests/chaos tests/browser tests/csrc tests/quint tests/integration $(TEST_ARGS)

## make test-lab   the other part, in two labs side by side (those of the self-tests below: LABS=2)
test-lab: tools-of-labs
	$(BIN)/python -m pytest -rfEsR $(SLOWEST) $(RERUNS) -n 2 --dist loadfile -m "lab and not selftest and not long" \
		tests/integration $(TEST_ARGS)

## make coverage   test-no-lab, counting lines; fails below the share that pyproject.toml names
coverage: tools
	$(NO_LAB) --cov --cov-report=term $(TEST_ARGS)

## make lint       style, format and types, those of the tests as well
lint: setup
	@.ci/lint $(VENV)

## make check      lint, and the tests of files that take less than a second
check: lint
	-@.ci/setup format
	$(BIN)/python -m pytest -q -rfEsR -n 2 -m "not lab and not slow and not long and not selftest" $(TEST_ARGS)

## make setup      apt packages (as root), virtual environment, C extension; quick when all is there
setup: $(STAMP)
	@.ci/setup packages
	@.ci/setup ready $(VENV)

$(STAMP): pyproject.toml .ci/setup $(C_SOURCES)
	@.ci/setup packages
	@.ci/setup venv $(VENV)
	@touch $@

## make lab-up     bring the default lab up (five nodes) and leave it up; runs use it
lab-up: setup
	$(BIN)/dstest lab up

## make lab-down   take every lab down and collect what dead ones left
lab-down: setup
	$(BIN)/dstest lab down --all
	$(BIN)/dstest lab gc

## make vagrant-up   the default lab by Vagrant, from a box of our own; `dstest run --lab vagrant`
vagrant-up: setup
	@.ci/setup vagrant
	$(BIN)/dstest lab up --lab vagrant

## make vagrant-down   take all labs of Vagrant down
vagrant-down: setup
	$(BIN)/dstest lab down --lab vagrant --all
	$(BIN)/dstest lab gc

## make vm-up      a lab of three virtual machines, with what that needs; `dstest run --lab vm --nodes 3`
vm-up: setup
	@.ci/setup vm
	$(BIN)/dstest lab up --lab vm --nodes 3

## make vm-down    take all labs of virtual machines down
vm-down: setup
	$(BIN)/dstest lab down --lab vm --all
	$(BIN)/dstest lab gc

## make podman-up    the default lab by podman, from an image of our own; `dstest run --lab podman`
podman-up: setup
	@.ci/setup podman
	$(BIN)/dstest lab up --lab podman

## make podman-down   take all labs of podman down
podman-down: setup
	$(BIN)/dstest lab down --lab podman --all
	$(BIN)/dstest lab gc

## make bench      figures as ratios measured in one run (as root)
bench: setup
	$(BIN)/python tests/bench/bench.py $(BENCH_ARGS)

## make nemesis-selftest   every fault on real nodes: landed, sabotaged, healed, healed without us
nemesis-selftest: setup
	$(BIN)/python -m pytest -v --tb=short $(RERUNS) $(SIDE_BY_SIDE) --nemesis-table=build/nemesis-selftest.md \
		tests/integration/test_nemesis_*.py tests/integration/test_sabotage.py \
		tests/integration/test_disaster.py -k "not without_ and not wrong_usage" $(TEST_ARGS)

## make systems-selftest   every fault that fits each other system, landed and healed: docs/systems.md
##                 (hours; TEST_ARGS="-k zookeeper" tries one system and keeps what is known of others)
systems-selftest: setup
	$(BIN)/python -m pytest -v --tb=short $(RERUNS) $(SIDE_BY_SIDE) --systems-table=docs/systems.md \
		tests/integration/test_systems.py $(TEST_ARGS)

## make labs-selftest   runs on virtual machines (clocks, netem, power cuts), without root, every fault on
##                 adopted machines, and what is long on nodes (shrink, carry); emulated machines need both
##                 processors
labs-selftest: setup
	@.ci/setup vm
	$(BIN)/python -m pytest -v --tb=short $(RERUNS) -m selftest tests/integration \
		--ignore-glob='*/test_nemesis_*' --ignore=tests/integration/test_systems.py $(TEST_ARGS)

## make spec-selftest   specifications and simulation: what they promise, and which tests show it
spec-selftest: setup
	-@.ci/setup quint $(VENV)
	$(BIN)/python tests/unit/spec/selftest.py

## make proofs     what is long: the checkers' proofs at full size, and all cases of `sampled` tests
proofs: setup
	$(BIN)/python -m pytest -v -s $(RERUNS) -m long $(TEST_ARGS)

## make mutants    how many of our own mutants the tests kill (hours; tests/mutants/mutants.py --help)
mutants: setup
	$(BIN)/python tests/mutants/mutants.py map
	$(BIN)/python tests/mutants/mutants.py run $(MUTANTS_ARGS)

## make sanitize   the C core under AddressSanitizer and UBSan, alone and below its Python tests
sanitize: setup
	DSTEST_ROUNDS=4 $(BIN)/python -m pytest -q tests/csrc $(TEST_ARGS)
	$(BIN)/python tests/csrc/sanitized.py $(TEST_ARGS)

## make fuzz       coverage-guided fuzzing of the C core, FUZZ_SECONDS (1800) for each target
fuzz: setup
	@.ci/setup fuzz
	$(BIN)/python tests/csrc/fuzz.py --seconds $(FUZZ_SECONDS) $(FUZZ_ARGS)

## make corpora    write the histories in tests/corpora anew, the same byte for byte
corpora: setup
	PYTHONPATH=tests/oracles $(BIN)/python tests/corpora/make_corpora.py

## make wheel      one abi3 wheel in dist/; fails where the extension does not compile
wheel: setup
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

## make clean      remove what was built here; run directories in store/ stay
clean:
	rm -rf $(VENV) build dist .fuzz *.egg-info checkers/*.so .mypy_cache .ruff_cache .hypothesis \
		.coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
