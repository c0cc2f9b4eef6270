##@ Set up (demo and test do this automatically)
setup: setup-control .venv-training/.installed build/digits/.written  ## Install what the demo needs

setup-control: .venv/.installed node_modules/.installed build/layer/.installed build/models/endpoints.json  ## The same without the training environment

setup-catalog: build/layer/catalog/.installed  ## Install the libraries of the function of `catalog: dsql`

setup-test: setup setup-catalog setup-scanners setup-images .venv-docs/.installed docs_site/node_modules/.installed tests/integration/policies/node_modules/.installed

setup-scanners: .venv-scanners/.installed  ## Install checkov, which `make check` requires

setup-images: .venv-images/.installed  ## Install the SDK that resolves AWS's own training images (`framework` and `algorithm` in grid.yaml)

setup-notebook: .venv-notebook/.installed  ## Install the SageMaker Python SDK v3 and a kernel for the example notebook

setup-torch: .venv-torch/.installed build/torch-digits/.written build/torch-records/.written  ## Install PyTorch with CUDA for `make demo-torch` (7 GB)

# Each part has a stamp file, which make compares with its inputs. setup/step.py writes it when the part is complete.
.venv/.installed: requirements.txt $(REQUIREMENTS)/dev.txt pyproject.toml localcloud/pyproject.toml \
		verification/pyproject.toml setup/prerequisites.sh setup/uv.txt
	@setup/prerequisites.sh control
	$(STEP) $@ "Python packages of the control plane" $^ -- sh -c '$(ENVIRONMENT) .venv requirements.txt $(REQUIREMENTS)/dev.txt && $(call EDITABLE,.venv,. ./localcloud ./verification)'

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
	$(STEP) $@ "Notebook with the SageMaker Python SDK v3" $^ -- sh -c '$(ENVIRONMENT) .venv-notebook $(REQUIREMENTS)/notebook.txt && $(call EDITABLE,.venv-notebook,.)'

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

# The same as TFRecords: the training data of `make demo-torch-recipe`.
build/torch-records/.written: .venv-torch/.installed examples/torch_recipe/write_digits.py
	$(STEP) $@ "Digits as TFRecords, without TensorFlow" $^ -- env PYTHONPATH=. .venv-torch/bin/python examples/torch_recipe/write_digits.py build/torch-records

.PHONY: FORCE setup setup-catalog setup-control setup-images setup-notebook setup-scanners setup-test setup-torch
