"""xgboost: the channels of each version of the algorithm, and the rules of more than one value.

Source: the checks of the container (https://github.com/aws/sagemaker-xgboost-container, a tag for each version) in
src/sagemaker_xgboost_container/: algorithm_mode/hyperparameter_validation.py, channel_validation.py, data_utils.py,
constants/xgb_constants.py and xgb_content_types.py. Instances:
https://docs.aws.amazon.com/sagemaker/latest/dg/xgboost.html#Instance-XGBoost.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial

from traingrid.algorithms.algorithm import BrokenRule, ChannelRule, Use, invalid, missing
from traingrid.algorithms.hyperparameter import one_of

VERSIONS = ("1.2-1", "1.2-2", "1.3-1", "1.5-1", "1.7-1", "3.0-5", "3.2-0")
"""The versions with these rules. Earlier ones accept other hyperparameters and are deprecated."""

LIBSVM = ("text/libsvm", "text/x-libsvm", "libsvm")
CSV = ("text/csv", "csv")
PARQUET = ("application/x-parquet", "parquet")
PROTOBUF = ("application/x-recordio-protobuf", "recordio-protobuf")

METRICS = (
    *("accuracy", "auc", "aucpr", "balanced_accuracy", "f1", "f1_binary", "f1_macro", "map", "ndcg", "precision"),
    *("precision_macro", "precision_micro", "r2", "recall", "recall_macro", "recall_micro"),
    *("aft-nloglik", "cox-nloglik", "error", "gamma-deviance", "gamma-nloglik", "interval-regression-accuracy"),
    *("logloss", "mae", "mape", "merror", "mlogloss", "mphe", "mse", "poisson-nloglik", "rmse", "rmsle"),
    "tweedie-nloglik",
)
_METRICS_SINCE = {
    "1.2-2": ("f1_binary", "f1_macro"),
    "1.3-1": (
        *("balanced_accuracy", "mape", "precision", "precision_macro", "precision_micro"),
        *("recall", "recall_macro", "recall_micro"),
    ),
}

_TREE_UPDATERS = ("grow_colmaker", "distcol", "grow_histmaker", "grow_local_histmaker")
"""The updaters of which a job can have only one, because they grow trees; the last one only up to version 1.5-1."""

_UPDATES = ("refresh", "prune")
"""The updaters of the process type "update"."""

_LINEAR_UPDATERS = ("shotgun", "coord_descent")
"""The updaters of the booster gblinear, which has one of them; no other booster has them."""

UPDATERS = (*_TREE_UPDATERS, "grow_skmaker", "sync", *_UPDATES, *_LINEAR_UPDATERS)

_ACCELERATED = ("p", "g", "trn", "inf")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_DEFAULT_OBJECTIVE = "reg:squarederror"


def channels(version: str) -> dict[str, ChannelRule]:
    """Return the channels of a version."""
    files, streams = (*LIBSVM, *CSV, *PARQUET, *PROTOBUF), (*CSV, *PARQUET, *PROTOBUF)
    modes = {"File": files, "FastFile": files} | ({} if _is_at_least(version, "3.2-0") else {"Pipe": streams})
    channel = partial(ChannelRule, content_types=modes, default=LIBSVM[0], parameters=False)
    return {"train": channel(required=True), "validation": channel()}


def _is_at_least(version: str, minimum: str) -> bool:
    return VERSIONS.index(version) >= VERSIONS.index(minimum)


def _num_class(use: Use) -> Iterator[BrokenRule]:
    objective = use.hyperparameters.get("objective", "")
    if objective in ("multi:softmax", "multi:softprob") and "num_class" not in use.hyperparameters:
        yield missing("num_class", f"the objective {objective} requires it", "a whole number of at least 2")


def _tree_methods(use: Use) -> Iterator[BrokenRule]:
    """Constraints require a tree method that implements them; "auto" and the default are none of these."""
    hyperparameters = use.hyperparameters
    supported = {
        "monotone_constraints": ("exact", "hist"),
        "interaction_constraints": ("exact", "hist", "approx"),
    }
    for name, methods in supported.items():
        if name in hyperparameters and hyperparameters.get("tree_method") not in methods:
            reason = "only some tree methods support constraints"
            yield invalid(
                name, hyperparameters[name], reason, f"Set tree_method to {one_of(methods)}, or remove {name}."
            )
    if hyperparameters.get("tree_method") == "gpu_hist" and not use.family.startswith(_ACCELERATED):
        step = "Write an instance type with a GPU, or another tree_method."
        yield invalid("tree_method", "gpu_hist", f"{use.instance_type} has no GPU", step)


def _lists(use: Use, version: str) -> Iterator[BrokenRule]:
    yield from _metrics(use.hyperparameters, version)
    yield from _updaters(use.hyperparameters, version)


def _updaters(values: Mapping[str, str], version: str) -> Iterator[BrokenRule]:
    """Check the updaters: the booster and the process type determine which of them apply."""
    updaters = tuple(word for word in UPDATERS if word != "grow_local_histmaker" or not _is_at_least(version, "1.7-1"))
    words = values.get("updater", "").split(",") if "updater" in values else []
    if unknown := [word for word in words if word not in updaters]:
        yield invalid("updater", unknown[0], "not a valid value", f"Write {one_of(updaters)}.")
        return
    linear, update = values.get("booster") == "gblinear", values.get("process_type") == "update"
    allowed = tuple(word for word in updaters if word not in _LINEAR_UPDATERS)
    condition = "a booster of trees"
    if linear or update:
        allowed = _LINEAR_UPDATERS if linear else _UPDATES
        condition = "the booster gblinear" if linear else "the process_type update"
    if excluded := [word for word in words if word not in allowed]:
        yield invalid("updater", excluded[0], f"does not apply to {condition}", f"Write {one_of(allowed)}.")
        return
    growing = [word for word in words if word in (_LINEAR_UPDATERS if linear else _TREE_UPDATERS)]
    if len(growing) > 1:
        reason = "gblinear has one updater" if linear else "only one updater can grow trees"
        yield invalid("updater", values["updater"], reason, f"Keep one of {', '.join(growing)}.")


def _metrics(values: Mapping[str, str], version: str) -> Iterator[BrokenRule]:
    """Check the evaluation metrics; `error`, `ndcg` and `map` may have a threshold, such as error@0.7.

    The container's check of metrics reads the objective, for which the container itself has no default.
    """
    if "eval_metric" in values and "objective" not in values:
        yield missing("objective", "eval_metric requires it", f"text such as {_DEFAULT_OBJECTIVE}, xgboost's default")
        return
    objective = values.get("objective", "")
    later = {word for since, words in _METRICS_SINCE.items() if not _is_at_least(version, since) for word in words}
    metrics = tuple(metric for metric in METRICS if metric not in later)
    for metric in filter(None, values.get("eval_metric", "").split(",")):
        name, _, threshold = metric.partition("@")
        has_threshold = name in ("error", "ndcg", "map") and _NUMBER.fullmatch(threshold)
        if metric not in metrics and not has_threshold:
            yield invalid("eval_metric", metric, "not a valid metric", f"Write {one_of(metrics)}.")
        elif metric == "auc" and not objective.startswith(("binary:", "rank:")):
            step = "Write an objective that begins with binary: or rank:, or another eval_metric."
            yield invalid("eval_metric", metric, f"auc does not apply to the objective {objective}", step)
        elif metric == "aft-nloglik" and objective != "survival:aft":
            step = "Write the objective survival:aft, or another eval_metric."
            yield invalid("eval_metric", metric, f"aft-nloglik does not apply to the objective {objective}", step)


def _instances(use: Use, version: str) -> Iterator[BrokenRule]:
    """Check GPU instances, for which the page lists families up to version 1.7-1 and none for later ones."""
    families = ("p2", "p3", "p3dn") if version == "1.2-1" else ("p2", "p3", "p3dn", "g4dn", "g5")
    if not use.family.startswith(_ACCELERATED):
        return
    if use.family not in families and not _is_at_least(version, "3.0-5"):
        reason = f"xgboost {version} does not train on this instance type"
        step = f"Write a CPU instance type, or one of {one_of(tuple(f'ml.{family}' for family in families))}."
        yield BrokenRule(field="instance_type", value=use.instance_type, reason=reason, next_step=step)
    if use.instance_count > 1 and use.hyperparameters.get("use_dask_gpu_training") != "true":
        reason = "xgboost trains on several GPU instances only with use_dask_gpu_training"
        step = "Write 1, CPU instances, or use_dask_gpu_training true (version 1.7-1 or later)."
        yield BrokenRule(field="instance_count", value=str(use.instance_count), reason=reason, next_step=step)


def _dask(use: Use, version: str) -> Iterator[BrokenRule]:
    """Check distributed training on GPUs as `validate_gpu_train_configuration` of the container does."""
    if use.hyperparameters.get("use_dask_gpu_training") != "true":
        return
    methods = ("gpu_hist", "hist") if _is_at_least(version, "3.2-0") else ("gpu_hist",)
    if use.hyperparameters.get("tree_method") not in methods or not use.family.startswith(_ACCELERATED):
        reason = "it requires a GPU instance and a tree method for GPUs"
        step = f"Set tree_method to {one_of(methods)} and write a GPU instance type, or remove it."
        yield invalid("use_dask_gpu_training", "true", reason, step)
    for name, channel in use.channels.items():
        if channel.input_mode == "Pipe" or (channel.mime or LIBSVM[0]) not in (*CSV, *PARQUET):
            reason = "use_dask_gpu_training requires files of CSV or Parquet"
            step = f"Write input_mode File and content_type {one_of((*CSV, *PARQUET))}."
            yield BrokenRule(field="inputs", entry=name, value=channel.content_type, reason=reason, next_step=step)
        if channel.distribution != "FullyReplicated" and use.instance_count > 1:
            reason = "use_dask_gpu_training requires all data on each instance"
            step = "Write distribution FullyReplicated."
            yield BrokenRule(field="inputs", entry=name, value=channel.distribution, reason=reason, next_step=step)


RULES = (_num_class, _tree_methods)
RULES_OF_VERSIONS = (_lists, _instances, _dask)
"""The rules that differ between versions."""
