# traingrid: `make help` lists the targets. Everything is installed into this folder, once.
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
EDITABLE = "$$(setup/uv.sh)" pip install --quiet --python $(1) --no-deps --no-build-isolation --editable .
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

demo-catalog: setup  ## Register four campaigns by upload, plan with one move, train, and print accuracy and dollars with SQL
	.venv/bin/python -m examples catalog

##@ Deploy into AWS, or a local AWS
GRID ?= grid.yaml
CDK := npx cdk
deploy: setup-control  ## Deploy GRID=grid.yaml, or its changes
	$(CDK) deploy --all -c grid=$(GRID)

deploy-again: setup-control  ## Redeploy a destroyed grid with its retained buckets and ledger
	account=$$(.venv/bin/python -c "import boto3; print(boto3.client('sts', 'us-east-1').get_caller_identity()['Account'])") && \
		$(CDK) deploy --all -c grid=$(GRID) --import-existing-resources -c account=$$account

destroy: setup-control  ## Destroy GRID=grid.yaml unless jobs run, and list the retained resources
	$(CDK) destroy --all -c grid=$(GRID) && .venv/bin/traingrid --grid $(GRID) retained

##@ Work on it
# Each part is a lane, whose times bench/lanes.py records and prints.
LANE := @$(PYTHON) -m bench.lanes run
ALL_LANES = $(LANE) "make $@, all parts" -- $(MAKE) --no-print-directory lanes-of-$@; status=$$?; \
	$(PYTHON) -m bench.lanes table; exit $$status
test:  ## Check the product: format, lint, types, docs, and tests on one deployed path per kind
	@rm -rf build/lanes
	$(ALL_LANES)

test-all:  ## Test the rest: localcloud, all kinds of grids, faults, containers, page, notebook, PyTorch (after `make test`)
	$(ALL_LANES)

lanes-of-test:
	$(LANE) set-up -- $(MAKE) --no-print-directory --jobs=3 setup-test
	@$(AT_ONCE) lane-control lane-training lane-lint lane-docs

lanes-of-test-all:
	$(LANE) set-up-of-the-rest -- $(MAKE) --no-print-directory --jobs=3 setup-test setup-notebook setup-torch setup/ui/node_modules/.installed .venv-bench/.installed
	@status=0; $(AT_ONCE) lane-rest lane-ranks lane-containers lane-notebook lane-torch lane-ui lane-tiny || status=$$?; \
		$(ONE_BY_ONE) lane-guard || status=$$?; exit $$status

# All lanes run, also after one has failed. Two at a time, because tests often wait; a comparison runs alone.
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
lane-containers lane-ui lane-notebook lane-torch: lane-%:
	$(LANE) $* -- $(MAKE) --no-print-directory test-$*
lane-tiny:
	$(LANE) "benchmarks at a tiny size" -- $(MAKE) --no-print-directory bench-tiny
lane-guard:
	$(LANE) "benchmarks beside the last release" -- $(MAKE) --no-print-directory bench-guard

# A worker runs whole files, because a file's tests share what is slow to create: a deployment, a synthesis, a local AWS.
# In the order of collection, files with deployments come first; otherwise the last worker would run them alone.
PARALLEL := --numprocesses 3 --dist loadfile --no-loadscope-reorder

test-training:
	.venv-training/bin/python -m pytest tests/training $(if $(TESTS),--lane $(TESTS))

check-fast: setup-control  ## Check format, lint and types, and run the unit tests
	@start=$$(date +%s) && $(MAKE) --no-print-directory --jobs=2 --output-sync=target lint test-unit && \
		echo "make check-fast took $$(($$(date +%s) - start)) s."

test-unit:
	.venv/bin/python -m pytest $(PARALLEL) tests/unit

# coverage's trace function sometimes ends a thread of Python 3.11 (https://github.com/python/cpython/issues/98257), and
# the test that needed the thread fails. The report is printed all the same; `make test` decides whether tests pass.
coverage: setup-control setup-scanners setup-images  ## Run the tests of the control plane, and print line and branch coverage by package
	-.venv/bin/python -m pytest $(PARALLEL) --cov --cov-report=json:build/coverage.json
	.venv/bin/python -m bench.coverage build/coverage.json

check: setup-control setup-scanners setup-images tests/integration/policies/node_modules/.installed  ## Run scanners, our own rules and policy tests on every kind of grid; part of `make test-all`
	.venv/bin/python -m pytest tests/integration/stacks tests/integration/posture $(wildcard tests/integration/policies)

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

image-orchestrator image-cpu image-gpu image-torch:  ## Build an image with buildah: the orchestrator's, or the training image for CPUs, GPUs or PyTorch
	@containers/build.sh $(@:image-%=%)

synth: setup-control  ## Write the CloudFormation templates to cdk.out/
	npx cdk synth --quiet

lock:  ## Resolve the groups of setup/pyproject.toml into locked requirements with hashes
	@setup/lock.sh

# ACCOUNT is only read from make's command line, so that a shell variable cannot select an account by accident.
REGIONS ?= us-east-1,eu-west-1
BUDGET ?= 5
conformance: setup-control  ## Check our assumptions about AWS in localcloud, or in ACCOUNT=123456789012 REGIONS=us-east-1,eu-west-1 BUDGET=5
	.venv/bin/python -m conformance $(if $(filter command,$(firstword $(origin ACCOUNT))),--account $(ACCOUNT) --regions $(REGIONS) --budget $(BUDGET))

api-page: .venv/.installed  ## Write docs/api.md from docstrings, and docs/sagemaker-sdk.md from the table of attributes
	.venv/bin/python -m docs_site.api_page
	.venv/bin/python -m docs_site.trainer_page

measurements-page: .venv/.installed  ## Write the tables of docs/measurements.md from bench/results/
	.venv/bin/python -m docs_site.measurements_page

manifest-page: .venv/.installed  ## Write the table of docs/manifest.md from the table of manifest fields
	.venv/bin/python -m docs_site.manifest_page

cli-page: .venv/.installed  ## Write docs/cli.md from the definitions of the commands
	.venv/bin/python -m docs_site.cli_page

# Committed, because `pip install .` must not require npm.
ui-library: setup/ui/node_modules/.installed  ## Copy uPlot, which draws the plots of `traingrid ui`, from npm into the package
	cp setup/ui/node_modules/uplot/dist/uPlot.iife.min.js setup/ui/node_modules/uplot/dist/uPlot.min.css \
		setup/ui/node_modules/uplot/LICENSE traingrid/ui/static/uplot/

ui-picture: setup-control  ## Take docs/ui.png from the page at ADDRESS, which `traingrid ui` prints (requires chromium)
	.venv/bin/python -m docs_site.page_picture '$(ADDRESS)'

report-picture: setup-control  ## Take docs/report.png from the file REPORT, which `traingrid report` wrote (requires chromium)
	.venv/bin/python -m docs_site.report_picture '$(REPORT)'

permissions: .venv/.installed tests/integration/policies/node_modules/.installed  ## Derive the permissions of calls, for localcloud and docs/security.md
	.venv/bin/python -m tests.integration.policies.derivation

bench-control: setup-control .venv-bench/.installed  ## Measure the control plane against its targets, into bench/results/
	.venv/bin/python -m bench.control
	.venv/bin/python -m bench.eks_child

bench-demo: setup-control  ## Measure the first `make demo` in fresh clones, with empty and filled caches, into bench/results/
	.venv/bin/python -m bench.first_minutes

idle-cost: setup-control  ## Print the monthly cost of an idle grid, from its templates
	.venv/bin/python -m bench.idle_cost

metric-cost: setup-control  ## Print the cost of the metric history of 10,000 jobs
	.venv/bin/python -m bench.metric_cost

page-cost: setup-control  ## Print the requests and the cost of `traingrid ui` while it is open
	.venv/bin/python -m bench.page_cost

lanes: .venv/.installed  ## Write the times of the last `make test` and `make test-all` into bench/results/
	.venv/bin/python -m bench.lanes results

bench-guard: setup-control  ## Compare cheap benchmarks with the last release, and fail if one has grown (three minutes; part of `make test-all`)
	.venv/bin/python -m bench.guard

bench-tiny: setup .venv-bench/.installed  ## Run every benchmark at a tiny size, without results (part of `make test-all`)
	.venv/bin/python -m bench.tiny

bench-rates: setup-control  ## Compare the calls per second of 256 children with AWS's limits, into bench/results/
	.venv/bin/python -m bench.rates

bench-synth: setup-control  ## Compare the synthesis of four Regions with that of an empty app, into bench/results/
	.venv/bin/python -m bench.synth

bench-catalog: setup-control  ## Measure the time from a query to a manifest in SQLite and PostgreSQL, into bench/results/
	.venv/bin/python -m bench.catalog

bench-capacity: setup-control  ## Count the CreateTrainingJob calls of 200 lines without capacity, into bench/results/
	.venv/bin/python -m bench.capacity

bench-history: setup-control  ## Measure a sweep, lists and an audit over up to a million ended jobs, into bench/results/
	.venv/bin/python -m bench.history

bench-logs: setup-control  ## Measure how long `traingrid logs` takes for a million lines, into bench/results/
	.venv/bin/python -m bench.logs

bench-start: setup-control  ## Measure the processor time of each command before its first request to AWS, into bench/results/
	.venv/bin/python -m bench.command_start

bench-status: setup-control  ## Measure the status of a submission with 10,000 jobs, and count its requests, into bench/results/
	.venv/bin/python -m bench.status

bench-ui: setup-control  ## Measure the page of `traingrid ui` with 10,000 jobs in Chromium, into bench/results/
	.venv/bin/python -m bench.ui

bench-plan: setup-control  ## Measure the planner with 10,000 datasets against its targets, into bench/results/
	.venv/bin/python -m bench.plan

bench-training: .venv-training/.installed  ## Measure input, steps and ranks of the training image against their targets, into bench/results/
	.venv-training/bin/python -m bench.training

GPU_PYTHON ?= python3
bench-gpu:  ## Measure the trainer on NVIDIA GPUs, into bench/results/ (in the image of the target gpu, see docs/training.md)
	$(GPU_PYTHON) -m bench.gpu

bench-gpu-torch:  ## Measure PyTorch with traingrid's modules on an NVIDIA GPU, into bench/results/ (see docs/training.md)
	$(GPU_PYTHON) -m bench.gpu_torch

SEED ?= 1
COUNT ?= 60
mutate: setup-control  ## Change COUNT=60 places of the code, drawn at random with SEED=1, and list those that no test notices
	.venv/bin/python -m bench.mutation draw --seed $(SEED) --count $(COUNT)

ACCOUNT ?= young
faults: setup-control  ## Run all fault experiments at full volume, and count violated invariants (about two hours); with ENGINE=eks on Kubernetes
	.venv/bin/python -m verification.faults --seed $(SEED) --account $(ACCOUNT) --engine $(ENGINE)

##@ Set up (demo and test do this automatically)
setup: setup-control .venv-training/.installed build/digits/.written  ## Install what the demo needs

setup-control: .venv/.installed node_modules/.installed build/layer/.installed build/models/endpoints.json  ## The same without the training environment

setup-catalog: build/layer/catalog/.installed  ## Install the libraries of the function of `catalog: dsql`

setup-test: setup setup-catalog setup-scanners setup-images .venv-docs/.installed docs_site/node_modules/.installed tests/integration/policies/node_modules/.installed

setup-scanners: .venv-scanners/.installed  ## Install checkov, which `make check` requires

setup-images: .venv-images/.installed  ## Install the SDK that resolves AWS's own training images (`framework` and `algorithm` in grid.yaml)

setup-notebook: .venv-notebook/.installed  ## Install the SageMaker Python SDK v3 and a kernel for the example notebook

setup-torch: .venv-torch/.installed build/torch-digits/.written  ## Install PyTorch with CUDA for `make demo-torch` (7 GB)

clean:  ## Remove everything that set-up and runs have created
	rm -rf .venv .venv-training .venv-bench .venv-docs .venv-images .venv-notebook .venv-scanners .venv-torch node_modules docs_site/node_modules setup/ui/node_modules tests/integration/policies/node_modules build cdk.out .localcloud .mypy_cache .coverage .pytest_cache .ruff_cache .hypothesis

help:  ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z -]+:.*## / { count = split($$1, names, " "); \
			for (i = 1; i <= count; i++) printf "  make %-18s %s\n", names[i], $$2 }' $(MAKEFILE_LIST)

# Each part has a stamp file, which make compares with its inputs. setup/step.py writes it when the part is complete.
.venv/.installed: requirements.txt $(REQUIREMENTS)/dev.txt pyproject.toml setup/prerequisites.sh setup/uv.txt
	@setup/prerequisites.sh control
	$(STEP) $@ "Python packages of the control plane" $^ -- sh -c '$(ENVIRONMENT) .venv requirements.txt $(REQUIREMENTS)/dev.txt && $(call EDITABLE,.venv)'

node_modules/.installed: package.json package-lock.json
	@setup/prerequisites.sh control
	$(STEP) $@ "CDK CLI" $^ -- $(NPM)

# The IAM simulator, which only the tests of the policy matrix use.
tests/integration/policies/node_modules/.installed: tests/integration/policies/package.json tests/integration/policies/package-lock.json
	$(STEP) $@ "IAM simulator" $^ -- $(NPM) --prefix tests/integration/policies

# The libraries of the Lambda functions, for Lambda's Linux and for this machine: compiled files have different names.
build/layer/.installed: $(REQUIREMENTS)/layer.txt setup/layer.sh setup/layer-services.txt .venv/.installed
	$(STEP) $@ "Lambda layer" $^ -- setup/layer.sh build/layer layer

# The libraries of the function of `catalog: dsql`, in a layer that only this function has.
build/layer/catalog/.installed: $(REQUIREMENTS)/catalog-function.txt build/layer/.installed
	$(STEP) $@ "Lambda layer of catalog: dsql" $^ -- setup/layer.sh build/layer/catalog catalog-function

# The service models that batch_job/Dockerfile puts into the orchestrator's image.
build/models/endpoints.json: batch_job/service_models.py .venv/.installed
	$(STEP) $@ "Service models of the orchestrator" $^ -- .venv/bin/python -m batch_job.service_models build/models

# Records the MPI that Horovod is built with. It only changes when Open MPI is installed, updated or removed.
build/mpi: FORCE
	@mkdir -p build
	@setup/training.sh --mpi | cmp -s - $@ || setup/training.sh --mpi >$@

.venv-training/.installed: $(REQUIREMENTS)/training.txt $(REQUIREMENTS)/training-dev.txt setup/training.sh \
		setup/prerequisites.sh build/mpi $(wildcard training_container/native/*)
	@setup/prerequisites.sh control training
	$(STEP) $@ "TensorFlow and Horovod" $^ -- setup/training.sh .venv-training

# A separate environment, because checkov's dependencies conflict with those of the CDK and moto.
.venv-scanners/.installed: $(REQUIREMENTS)/scanners.txt
	$(STEP) $@ "checkov" $^ -- $(ENVIRONMENT) .venv-scanners $(REQUIREMENTS)/scanners.txt

# The SageMaker Python SDK v2, with which bench/ compares traingrid. Nothing else uses it.
.venv-bench/.installed: $(REQUIREMENTS)/bench.txt
	$(STEP) $@ "SageMaker Python SDK v2" $^ -- $(ENVIRONMENT) .venv-bench $(REQUIREMENTS)/bench.txt

# The SageMaker Python SDK v3, which contains the addresses of AWS's own training images.
.venv-images/.installed: $(REQUIREMENTS)/images.txt
	$(STEP) $@ "SageMaker Python SDK v3" $^ -- $(ENVIRONMENT) .venv-images $(REQUIREMENTS)/images.txt

# The SageMaker Python SDK v3 with ModelTrainer, and the requirements of the example notebook. traingrid is installed
# without its requirements, because the SDK needs an older rich than .venv.
.venv-notebook/.installed: $(REQUIREMENTS)/notebook.txt pyproject.toml
	$(STEP) $@ "Notebook with the SageMaker Python SDK v3" $^ -- sh -c '$(ENVIRONMENT) .venv-notebook $(REQUIREMENTS)/notebook.txt && $(call EDITABLE,.venv-notebook)'

# PyTorch with NVIDIA's libraries, without which its wheel cannot be loaded, as in the image of Dockerfile.torch.
.venv-torch/.installed: $(REQUIREMENTS)/training-torch.txt $(REQUIREMENTS)/training-torch-dev.txt
	$(STEP) $@ "PyTorch (7 GB)" $^ -- $(ENVIRONMENT) .venv-torch --pip $^

.venv-docs/.installed: $(REQUIREMENTS)/docs.txt
	$(STEP) $@ "MkDocs" $^ -- $(ENVIRONMENT) .venv-docs $(REQUIREMENTS)/docs.txt

# The library that draws diagrams in the reader's browser.
docs_site/node_modules/.installed: docs_site/package.json docs_site/package-lock.json
	$(STEP) $@ "Mermaid" $^ -- $(NPM) --prefix docs_site

# uPlot, and axe-core, which tests of the page run.
setup/ui/node_modules/.installed: setup/ui/package.json setup/ui/package-lock.json
	$(STEP) $@ "uPlot" $^ -- $(NPM) --prefix setup/ui

# scikit-learn's scans as TFRecords: the training data of the demo and the end-to-end run.
build/digits/.written: .venv-training/.installed examples/digits/write_campaigns.py
	$(STEP) $@ "Digits as TFRecords" $^ -- env TF_CPP_MIN_LOG_LEVEL=3 .venv-training/bin/python examples/digits/write_campaigns.py build/digits

# scikit-learn's scans as tensors: the training data of `make demo-torch`.
build/torch-digits/.written: .venv-torch/.installed examples/torch_ddp/write_digits.py
	$(STEP) $@ "Digits as tensors" $^ -- .venv-torch/bin/python examples/torch_ddp/write_digits.py build/torch-digits

.PHONY: FORCE lanes lane-guard lane-tiny lanes-of-test lanes-of-test-all lane-containers lane-control lane-docs lane-lint lane-ranks lane-notebook lane-rest lane-torch lane-training lane-ui measurements-page mutate setup-catalog setup-test test-all bench-control bench-demo bench-history bench-gpu bench-gpu-torch bench-guard bench-tiny bench-plan bench-start bench-status bench-synth bench-training bench-ui check check-fast clean conformance coverage demo demo-catalog demo-launchers demo-torch deploy deploy-again destroy docs faults first-hour format help idle-cost image-cpu image-gpu image-orchestrator image-torch lint lock metric-cost page-cost permissions report-picture setup setup-control setup-images setup-notebook setup-scanners setup-torch synth test test-containers test-notebook test-torch test-training test-ui test-unit types ui-library ui-picture
