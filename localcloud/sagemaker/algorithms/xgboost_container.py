"""xgboost container: the jobs that AWS's container of xgboost accepts, by the record in xgboost_container.toml.

The combinations of values are those of hyperparameter_validation.py and of distributed_gpu/distributed_gpu_training.py
(validate_gpu_train_configuration) in src/sagemaker_xgboost_container/ of
https://github.com/aws/sagemaker-xgboost-container, at the same tags as the record.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from localcloud.sagemaker.algorithms.job import AlgorithmJob
from localcloud.sagemaker.algorithms.published_rules import PublishedRules

VERSIONS = ("1.2-1", "1.2-2", "1.3-1", "1.5-1", "1.7-1", "3.0-5", "3.2-0")
"""The recorded versions."""

RECORD = PublishedRules("xgboost", Path(__file__).with_suffix(".toml"), VERSIONS)
_GPU = re.compile(r"ml\.(g|p)\d")


def hyperparameter_problem(hyperparameters: Mapping[str, str], version: str) -> str:
    """Return the first problem for which the container refuses hyperparameters; empty if it accepts them."""
    values = RECORD.own_names(hyperparameters)
    problem = RECORD.hyperparameter_problem(hyperparameters, version)
    if problem:
        return problem
    problems = (rule(values) for rule in _COMBINATIONS)
    return next((combination_problem for combination_problem in problems if combination_problem), "")


def job_problem(job: AlgorithmJob, version: str) -> str:
    """Return the first problem for which the container refuses a job; empty if it accepts it."""
    return (
        hyperparameter_problem(job.hyperparameters, version)
        or RECORD.channel_problem(job.channels, parameters=False)
        or _pipe_problem(job, version)
        or _gpu_problem(job, version)
    )


def record() -> dict[str, Any]:
    """Return the tables of the record."""
    return RECORD.tables


def _updater_problem(values: Mapping[str, str]) -> str:
    updaters = values["updater"].split(",") if "updater" in values else []
    tables = RECORD.tables["updaters"]
    growing = [word for word in updaters if word in RECORD.tables["growing"]]
    if not updaters:
        return ""
    if values.get("booster") == "gblinear":
        valid = len(updaters) == 1 and updaters[0] in tables["gblinear"]
    elif values.get("process_type") == "update":
        valid = {*updaters} <= {*tables["update"]}
    else:
        valid = not {*updaters} & {*tables["gblinear"]} and len(growing) <= 1
    return "" if valid else f"updater {values['updater']}: not for this booster and process_type"


def _objective_problem(values: Mapping[str, str]) -> str:
    has_classes = values.get("objective") in ("multi:softmax", "multi:softprob")
    needed = "Require input for parameter 'num_class' for multi-classification"
    return needed if has_classes and "num_class" not in values else ""


def _eval_metric_problem(values: Mapping[str, str]) -> str:
    """Return the problem of eval_metric; empty if there is none."""
    metrics = values["eval_metric"].split(",") if "eval_metric" in values else []
    # The container's check of metrics reads the objective, for which it has no default.
    if metrics and "objective" not in values:
        return "eval_metric: KeyError: 'objective'"
    if "auc" in metrics and not values["objective"].startswith(("binary:", "rank:")):
        return "Metric 'auc' can only be applied for classification and ranking problems."
    if "aft-nloglik" in metrics and values["objective"] != "survival:aft":
        return "Metric 'aft-nloglik' can only be applied for 'survival:aft' objective."
    return ""


def _constraints_problem(values: Mapping[str, str]) -> str:
    for name, methods in RECORD.tables["constraints"].items():
        if name in values and values.get("tree_method") not in methods:
            return f"{name} can be used only when the tree_method parameter is set to {' or '.join(methods)}"
    return ""


_COMBINATIONS: tuple[Callable[[Mapping[str, str]], str], ...] = (
    _updater_problem,
    _objective_problem,
    _eval_metric_problem,
    _constraints_problem,
)


def _pipe_problem(job: AlgorithmJob, version: str) -> str:
    piped = any(config["TrainingInputMode"] == "Pipe" for config in job.channels.values())
    is_after_pipe = VERSIONS.index(version) > VERSIONS.index(RECORD.tables["last_with_pipe"])
    return (
        "Pipe mode is no longer supported. Please use Fast File mode (default) instead."
        if piped and is_after_pipe
        else ""
    )


def _gpu_problem(job: AlgorithmJob, version: str) -> str:
    """Return the problem of gpu_hist, for which xgboost requires a GPU, or of Dask; empty if there is none."""
    method = job.hyperparameters.get("tree_method")
    has_gpu = bool(_GPU.match(job.instance_type))
    if job.hyperparameters.get("use_dask_gpu_training") != "true":
        return f"gpu_hist: {job.instance_type} has no GPU" if method == "gpu_hist" and not has_gpu else ""
    if method not in RECORD.tables["dask_methods"][version] or not has_gpu:
        return "Dask training is only available for `gpu_hist` training on GPU instances."
    if job.channels["train"]["TrainingInputMode"] == "Pipe":
        return "Dask training is not supported for pipe mode input. Please use File mode."
    if job.content_type("train", RECORD.tables["default_content_type"]) not in RECORD.tables["dask_content_types"]:
        return "Dask training is only supported for CSV and Parquet input."
    sharded = any(config.get("S3DistributionType") == "ShardedByS3Key" for config in job.channels.values())
    return "Dask distributed training requires FullyReplicated data." if sharded and len(job.hosts) > 1 else ""
