##@ Generated files, pictures and images
api-page: .venv/.installed  ## Write docs/api.md from docstrings, and docs/sagemaker-sdk.md from the table of attributes
	.venv/bin/python -m docs_site.api_page
	.venv/bin/python -m docs_site.trainer_page

measurements-page: .venv/.installed  ## Write the tables of docs/measurements.md from bench/results/
	.venv/bin/python -m docs_site.measurements_page

manifest-page: .venv/.installed  ## Write the table of docs/manifest-fields.md from the table of manifest fields
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

image-orchestrator image-cpu image-gpu image-torch:  ## Build an image with buildah: the orchestrator's, or the training image for CPUs, GPUs or PyTorch
	@containers/build.sh $(@:image-%=%)

lock:  ## Resolve the groups of setup/pyproject.toml into locked requirements with hashes
	@setup/lock.sh

.PHONY: api-page cli-page image-cpu image-gpu image-orchestrator image-torch lock manifest-page measurements-page permissions report-picture ui-library ui-picture
