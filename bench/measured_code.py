"""Measured code: the paths whose changes make a result old, for each file of bench/results/."""

from collections.abc import Mapping

_CONTROL_PLANE = ("batch_job", "lambda", "traingrid")
CODE: Mapping[str, tuple[str, ...]] = {
    "capacity": ("traingrid/backends", "traingrid/child", "traingrid/job", "traingrid/ledger"),
    "catalog": ("traingrid/catalog", "traingrid/cli/manifest.py", "traingrid/manifest"),
    "command-start": ("traingrid",),
    "control": (*_CONTROL_PLANE, "stacks"),
    "demo": ("Makefile", "examples/digits", "localcloud", "setup", "stacks"),
    "eks-child": ("batch_job", "traingrid/backends", "traingrid/child", "traingrid/kubernetes"),
    "faults": _CONTROL_PLANE,
    "faults-eks": _CONTROL_PLANE,
    "gpu": ("training_container",),
    "gpu-torch": ("training_container",),
    "history": ("traingrid/audit", "traingrid/backends", "traingrid/ledger", "traingrid/reconciler", "traingrid/ui"),
    "lanes": ("Makefile", "setup", "tests"),
    "logs": ("traingrid/api", "traingrid/aws", "traingrid/backends", "traingrid/cli/logs.py"),
    "plan": ("traingrid/planner",),
    "rates": ("traingrid/backends", "traingrid/child"),
    "spot": ("bench/spot", "traingrid/job/spot_decision.py"),
    "spot-traces": ("bench/spot", "traingrid/job/spot_decision.py"),
    "status": ("traingrid/cli", "traingrid/ledger", "traingrid/submission"),
    "synth": ("app.py", "stacks", "traingrid/deploy", "traingrid/grid"),
    "training": ("training_container",),
    "ui": ("traingrid/ledger", "traingrid/ui"),
}
