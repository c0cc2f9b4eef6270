##@ Parts of the tests
# Each part is a lane, whose times bench/lanes.py records and prints.
LANE := @$(PYTHON) -m bench.lanes run
ALL_LANES = $(LANE) "make $@, all parts" -- $(MAKE) --no-print-directory lanes-of-$@; status=$$?; \
	$(PYTHON) -m bench.lanes table; exit $$status
lanes-of-test:
	$(LANE) set-up -- $(MAKE) --no-print-directory --jobs=3 setup-test
	@$(AT_ONCE) lane-control lane-training lane-lint lane-docs

lanes-of-test-all:
	$(LANE) set-up-of-the-rest -- $(MAKE) --no-print-directory --jobs=3 setup-test setup-notebook setup-torch setup/ui/node_modules/.installed .venv-bench/.installed
	@status=0; $(AT_ONCE) lane-rest lane-ui lane-torch lane-notebook lane-ranks lane-containers lane-tiny || status=$$?; \
		$(ONE_BY_ONE) lane-guard || status=$$?; exit $$status

# All lanes run, also after one has failed. Two at a time, because tests often wait; a comparison runs alone. In this
# order, the longest lane starts first, and what a slow machine leaves out is last.
ONE_BY_ONE = $(MAKE) --no-print-directory --keep-going
AT_ONCE = $(ONE_BY_ONE) --jobs=2 --output-sync=line
lane-control:
	$(LANE) "control plane" -- .venv/bin/python -m pytest $(PARALLEL) --lane product
lane-training:
	$(LANE) "training image" -- $(MAKE) --no-print-directory test-training TESTS=product
lane-lint:
	$(LANE) "format, lint, types" -- $(MAKE) --no-print-directory lint
lane-docs:
	$(LANE) documentation -- $(MAKE) --no-print-directory docs
lane-rest:
	$(LANE) "rest of the control plane" -- .venv/bin/python -m pytest $(PARALLEL) --lane rest
lane-ranks:
	$(LANE) "training image on several ranks" -- $(MAKE) --no-print-directory test-training TESTS=rest
lane-ui lane-notebook lane-torch: lane-%:
	$(LANE) $* -- $(MAKE) --no-print-directory test-$*
# Where time is limited, one of these last lanes that would start after this Unix time is left out, and named.
LAST_LANES_UNTIL ?= inf
lane-containers:
	$(LANE) containers --until $(LAST_LANES_UNTIL) -- $(MAKE) --no-print-directory test-containers
lane-tiny:
	$(LANE) "benchmarks at a tiny size" --until $(LAST_LANES_UNTIL) -- $(MAKE) --no-print-directory bench-tiny
lane-guard:
	$(LANE) "benchmarks beside the last release" --until $(LAST_LANES_UNTIL) -- $(MAKE) --no-print-directory bench-guard

# A worker runs whole files, because a file's tests share what is slow to create: a deployment, a synthesis, a local AWS.
# In the order of collection, files with deployments come first; otherwise the last worker would run them alone.
PARALLEL := --numprocesses 3 --dist loadfile --no-loadscope-reorder

test-training:
	.venv-training/bin/python -m pytest tests/training $(if $(TESTS),--lane $(TESTS))

test-unit:
	.venv/bin/python -m pytest $(PARALLEL) tests/unit

# coverage's trace function sometimes ends a thread of Python 3.11 (https://github.com/python/cpython/issues/98257), and
# the test that needed the thread fails. The report is printed all the same; `make test` decides whether tests pass.
coverage: setup-control setup-scanners setup-images  ## Run the tests of the control plane, and print line and branch coverage by package
	-.venv/bin/python -m pytest $(PARALLEL) --cov --cov-report=json:build/coverage.json
	.venv/bin/python -m bench.coverage build/coverage.json

check: setup-control setup-scanners setup-images tests/integration/policies/node_modules/.installed  ## Run scanners, our own rules and policy tests on every kind of grid; part of `make test-all`
	.venv/bin/python -m pytest tests/integration/stacks tests/integration/posture $(wildcard tests/integration/policies)

test-containers: setup  ## Build both images, and run tests on two hosts and end to end in containers (root, podman, buildah, runc, debootstrap)
	.venv/bin/python -m pytest -c tests/containers/pytest.ini tests/containers

test-ui: setup-control setup/ui/node_modules/.installed  ## Test the page of `traingrid ui` in a browser (requires chromium)
	.venv/bin/python -m pytest -c tests/ui/pytest.ini tests/ui

# The tests of tests/notebook/sdk run in the environment of the SDK; the others execute the notebook there.
# The tests of tests/training run in their own environment, and start ranks in that of PyTorch.
test-torch: setup-torch .venv-training/.installed  ## Test PyTorch's ranks on two hosts: torchrun, checkpoints and stops (Linux; 7 GB of packages)
	.venv-torch/bin/python -m pytest -c tests/torch/pytest.ini tests/torch
	TORCH_ENVIRONMENT=$(CURDIR)/.venv-torch .venv-training/bin/python -m pytest tests/training/script_api/test_torch_records.py

test-notebook: setup-control setup-notebook .venv-training/.installed  ## Convert trainers of the SageMaker SDK, and execute the example notebook in a local AWS
	.venv-notebook/bin/python -m pytest -c tests/notebook/pytest.ini tests/notebook/sdk
	.venv/bin/python -m pytest -c tests/notebook/pytest.ini --ignore=tests/notebook/sdk tests/notebook

first-hour: setup  ## Follow docs/first-hour.md literally in a local AWS with a new account (requires the AWS CLI; about ten minutes)
	.venv/bin/python -m pytest -o addopts="-ra --import-mode=importlib" tests/e2e/test_first_hour.py

.PHONY: check coverage first-hour lane-containers lane-control lane-docs lane-guard lane-lint lane-notebook lane-ranks lane-rest lane-tiny lane-torch lane-training lane-ui lanes-of-test lanes-of-test-all test-containers test-notebook test-torch test-training test-ui test-unit
