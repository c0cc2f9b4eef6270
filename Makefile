# traingrid: `make help` lists the first targets, `make help-all` all of them. Everything is installed into this folder, once.
SHELL := /bin/sh
PYTHON ?= python3.11
export PYTHON
# jsii (the CDK's bridge to Node.js) warns that Node.js 20 is old, but the CDK CLI in package.json supports it.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION = 20
# Every process would compile the libraries that it imports again; for the CDK, that takes five seconds.
unexport PYTHONDONTWRITEBYTECODE

# setup/step.py shows what is installed, and lets a second `make` wait; setup/uv.sh installs uv itself.
STEP := @$(PYTHON) setup/step.py
ENVIRONMENT := setup/environment.sh
EDITABLE = "$$(setup/uv.sh)" pip install --quiet --python $(1) --no-deps --no-build-isolation $(addprefix --editable ,$(2))
NPM := npm ci --loglevel=error --no-fund --no-audit
REQUIREMENTS := setup/requirements
SOURCES := app.py batch_job bench conformance docs_site examples lambda localcloud stacks tests traingrid training_container verification

.DEFAULT_GOAL := help

##@ Try it
ENGINE ?= sagemaker
demo: setup  ## Train four Horovod clusters in four Regions of a local AWS, from one manifest; with ENGINE=mixed two on Kubernetes
	.venv/bin/python -m examples digits --engine $(ENGINE) $(if $(KEEP),--keep)

demo-launchers: setup  ## Run a script with mpi and one without a launcher on two hosts each of a local AWS; with ENGINE=eks on Kubernetes
	.venv/bin/python -m examples launchers --engine $(ENGINE)

demo-torch: setup-control setup-torch  ## Train PyTorch on two hosts of two ranks, kill a host, resume, and compare the numbers; with ENGINE=eks on Kubernetes
	.venv/bin/python -m examples torch_ddp --engine $(ENGINE)

demo-torch-recipe: setup-control setup-torch  ## Train PyTorch without a script in two Regions, kill a host, and resume with fewer ranks
	.venv/bin/python -m examples torch_recipe

demo-catalog: setup  ## Register four campaigns by upload, plan with one move, train, and print accuracy and dollars with SQL
	.venv/bin/python -m examples catalog

demo-rounds: setup  ## Train one model on four Regions with different digits in three rounds, and compare it with all data in one place
	.venv/bin/python -m examples rounds $(if $(KEEP),--keep)

##@ Deploy into AWS, or a local AWS
GRID ?= $(or $(TRAINGRID_GRID_FILE),grid.yaml)
CDK := npx cdk
deploy: setup-control  ## Deploy GRID=grid.yaml, or its changes
	$(CDK) deploy --all -c grid=$(GRID)

deploy-again: setup-control  ## Redeploy a destroyed grid with its retained buckets and ledger
	account=$$(.venv/bin/python -c "import boto3; print(boto3.client('sts', 'us-east-1').get_caller_identity()['Account'])") && \
		$(CDK) deploy --all -c grid=$(GRID) --import-existing-resources -c account=$$account

destroy: setup-control  ## Destroy GRID=grid.yaml unless jobs run, and list the retained resources
	$(CDK) destroy --all -c grid=$(GRID) && .venv/bin/traingrid --grid $(GRID) retained

##@ Work on it
test:  ## Check the product: format, lint, types, docs, and tests on one deployed path per kind
	@rm -rf build/lanes
	$(ALL_LANES)

test-all:  ## Test the rest: localcloud, all kinds of grids, faults, containers, page, notebook, PyTorch (after `make test`)
	$(ALL_LANES)

check-fast: setup-control  ## Check format, lint and types, and run the unit tests
	@start=$$(date +%s) && $(MAKE) --no-print-directory --jobs=2 --output-sync=target lint test-unit && \
		echo "make check-fast took $$(($$(date +%s) - start)) s."

lint: .venv/.installed  ## Check format, lint and types only
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	$(MAKE) --no-print-directory types

types: .venv/.installed  ## Check types only
	.venv/bin/mypy $(SOURCES)

format: .venv/.installed  ## Format the code and apply automatic lint fixes
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

# A warning is an error, for example a broken link. --quiet would drop warnings before they are counted. The variable
# disables an announcement of the theme.
docs: .venv-docs/.installed docs_site/node_modules/.installed  ## Build the documentation site into build/site/
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

synth: setup-control  ## Write the CloudFormation templates to cdk.out/
	npx cdk synth --quiet

# ACCOUNT is only read from make's command line, so that a shell variable cannot select an account by accident.
REGIONS ?= us-east-1,eu-west-1
BUDGET ?= 5
conformance: setup-control  ## Check our assumptions about AWS in localcloud, or in ACCOUNT=123456789012 REGIONS=us-east-1,eu-west-1 BUDGET=5
	.venv/bin/python -m conformance $(if $(filter command,$(firstword $(origin ACCOUNT))),--account $(ACCOUNT) --regions $(REGIONS) --budget $(BUDGET))

clean:  ## Remove everything that set-up and runs have created
	rm -rf .venv .venv-training .venv-bench .venv-docs .venv-images .venv-notebook .venv-scanners .venv-torch node_modules docs_site/node_modules setup/ui/node_modules tests/integration/policies/node_modules build cdk.out .localcloud .mypy_cache .coverage .pytest_cache .ruff_cache .hypothesis

HELP := @awk 'BEGIN { FS = ":.*\#\# " } /^\#\#@/ { printf "\n%s\n", substr($$0, 5) } \
	/^[a-z -]+:.*\#\# / { count = split($$1, names, " "); \
		for (i = 1; i <= count; i++) printf "  make %-18s %s\n", names[i], $$2 }'
help:  ## Show these targets
	$(HELP) Makefile

help-all:  ## Show all targets: parts of the tests, benchmarks, generated pages, images, environments
	$(HELP) $(MAKEFILE_LIST)

# Parts of the tests, benchmarks, generated files and images, and the environments.
include tests/lanes.mk bench/bench.mk setup/generated.mk setup/environments.mk

.PHONY: check-fast clean conformance demo demo-catalog demo-launchers demo-rounds demo-torch demo-torch-recipe deploy deploy-again destroy docs format help help-all lint synth test test-all types
