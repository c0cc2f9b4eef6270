##@ Benchmarks, costs, faults and mutants
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

bench-spot: setup-control  ## Compare the cost of the spot decision with the lower bound and other rules, into bench/results/; with TRACES=folder over public traces
	.venv/bin/python -m bench.spot $(if $(TRACES),--traces $(TRACES)) $(if $(JOBS),--jobs $(JOBS))

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
bench-gpu:  ## Measure the trainer on NVIDIA GPUs, into bench/results/ (in the image of the target gpu, see docs/gpus.md)
	$(GPU_PYTHON) -m bench.gpu

bench-gpu-torch:  ## Measure PyTorch with traingrid's modules on an NVIDIA GPU, into bench/results/ (see docs/scripts.md)
	$(GPU_PYTHON) -m bench.gpu_torch

SEED ?= 1
COUNT ?= 60
mutate: setup-control  ## Change COUNT=60 places of the code, drawn at random with SEED=1, and list those that no test notices
	.venv/bin/python -m bench.mutation draw --seed $(SEED) --count $(COUNT)

ACCOUNT ?= young
faults: setup-control  ## Run all fault experiments at full volume, and count violated invariants (about two hours); with ENGINE=eks on Kubernetes
	.venv/bin/python -m verification.faults --seed $(SEED) --account $(ACCOUNT) --engine $(ENGINE)

.PHONY: bench-capacity bench-catalog bench-control bench-demo bench-gpu bench-gpu-torch bench-guard bench-history bench-logs bench-plan bench-rates bench-spot bench-start bench-status bench-synth bench-tiny bench-training bench-ui faults idle-cost lanes metric-cost mutate page-cost
