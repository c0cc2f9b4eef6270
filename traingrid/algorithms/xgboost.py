"""xgboost: the published rules of the algorithm, for each version of its image.

Hyperparameters: https://docs.aws.amazon.com/sagemaker/latest/dg/xgboost_hyperparameters.html lists the most common
ones. The complete list with types and ranges, which the container checks before it trains, is public, with a tag for
each version (https://github.com/aws/sagemaker-xgboost-container,
src/sagemaker_xgboost_container/algorithm_mode/hyperparameter_validation.py). Where both have a range, the narrower one
applies. Channels: channel_validation.py and data_utils.py beside it. Instances:
https://docs.aws.amazon.com/sagemaker/latest/dg/xgboost.html#Instance-XGBoost.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from traingrid.algorithms.algorithm import Algorithm, BrokenRule, ChannelRule, Use, missing
from traingrid.algorithms.hyperparameter import Hyperparameter, one_of
from traingrid.algorithms.xgboost_values import (
    CSV,
    LIBSVM,
    METRICS,
    OBJECTIVES,
    PARQUET,
    PROTOBUF,
    TREE_UPDATERS,
    UPDATERS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = ("1.2-1", "1.2-2", "1.3-1", "1.5-1", "1.7-1", "3.0-5", "3.2-0")
"""The versions with these rules. Earlier ones accept other hyperparameters and are deprecated."""

_ACCELERATED = ("p", "g", "trn", "inf")
_LIST = r"[^,\s]+(\s*,\s*[^,\s]+)*"
_DEFAULT_OBJECTIVE = "reg:squarederror"


@cache
def xgboost(version: str) -> Algorithm:
    """Return the rules of a version.

    Raises:
        KeyError: The version is not one of VERSIONS.
    """
    if version not in VERSIONS:
        raise KeyError(version)
    files, streams = (*LIBSVM, *CSV, *PARQUET, *PROTOBUF), (*CSV, *PARQUET, *PROTOBUF)
    modes = {"File": files, "FastFile": files} | ({} if _at_least(version, "3.2-0") else {"Pipe": streams})
    channel = partial(ChannelRule, content_types=modes, default=LIBSVM[0])
    return Algorithm(
        name="xgboost",
        source="https://docs.aws.amazon.com/sagemaker/latest/dg/xgboost_hyperparameters.html",
        hyperparameters=(*_numbers(), *_choices(version), *_texts()),
        aliases={"learning_rate": "eta", "min_split_loss": "gamma", "reg_lambda": "lambda", "reg_alpha": "alpha"},
        channels={"train": channel(required=True), "validation": channel()},
        rules=(
            _num_class,
            _tree_methods,
            _lists,
            partial(_instances, version=version),
            partial(_dask, version=version),
        ),
    )


def _at_least(version: str, minimum: str) -> bool:
    return VERSIONS.index(version) >= VERSIONS.index(minimum)


def _number(name: str, least: float | None = None, greatest: float | None = None, *excludes: str) -> Hyperparameter:
    ends = tuple(end for end in ("least", "greatest") if end in excludes)
    return Hyperparameter(name=name, kind="number", least=least, greatest=greatest, excludes=ends)


def _integer(name: str, least: float, greatest: float | None = None, *, required: bool = False) -> Hyperparameter:
    return Hyperparameter(name=name, kind="integer", least=least, greatest=greatest, required=required)


def _numbers() -> tuple[Hyperparameter, ...]:
    return (
        _integer("num_round", 1, required=True),
        _integer("num_class", 2),
        _integer("csv_weights", 0, 1),
        _integer("early_stopping_rounds", 1),
        _integer("max_bin", 0),
        _integer("max_depth", 0),
        _integer("max_leaves", 0),
        _integer("nthread", 1),
        _integer("num_parallel_tree", 1),
        _integer("one_drop", 0, 1),
        _integer("refresh_leaf", 0, 1),
        _integer("seed", 1 - 2**31, 2**31 - 2),
        _integer("verbosity", 0, 3),
        _number("aft_loss_distribution_scale", 0),
        _number("alpha", 0),
        _number("base_score", 0),
        _number("colsample_bylevel", 0, 1, "least"),
        _number("colsample_bynode", 0, 1, "least"),
        _number("colsample_bytree", 0, 1, "least"),
        _number("eta", 0, 1),
        _number("gamma", 0),
        _number("lambda", 0),
        _number("lambda_bias", 0, 1),
        _number("max_delta_step", 0),
        _number("min_child_weight", 0),
        _number("rate_drop", 0, 1),
        _number("scale_pos_weight", 0, None, "least"),
        _number("sketch_eps", 0, 1, "least", "greatest"),
        _number("skip_drop", 0, 1),
        _number("subsample", 0, 1, "least"),
        _number("tweedie_variance_power", 1, 2, "least", "greatest"),
    )


def _choices(version: str) -> tuple[Hyperparameter, ...]:
    switch = ("true", "false")
    values: dict[str, tuple[str, ...]] = {
        "aft_loss_distribution": ("normal", "logistic", "extreme"),
        "booster": ("gbtree", "gblinear", "dart"),
        "deterministic_histogram": switch,
        "dsplit": ("row", "col"),
        "grow_policy": ("depthwise", "lossguide"),
        "normalize_type": ("tree", "forest"),
        "objective": (*OBJECTIVES, *(("reg:absoluteerror",) if _at_least(version, "3.0-5") else ())),
        "predictor": ("auto", "cpu_predictor", "gpu_predictor"),
        "process_type": ("default", "update"),
        "sample_type": ("uniform", "weighted"),
        "save_model_on_termination": switch,
        "tree_method": ("auto", "exact", "approx", "hist", "gpu_hist"),
    }
    if _at_least(version, "1.3-1"):
        values["sampling_method"] = ("uniform", "gradient_based")
    if _at_least(version, "1.7-1"):
        values["use_dask_gpu_training"] = switch
    else:
        values["single_precision_histogram"] = switch
    hyperparameters = [Hyperparameter(name=name, kind="choice", choices=choices) for name, choices in values.items()]
    return (*hyperparameters, *([_integer("prob_buffer_row", 2)] if _at_least(version, "1.3-1") else []))


def _texts() -> tuple[Hyperparameter, ...]:
    forms = {
        "eval_metric": (_LIST, '"rmse,mae"'),
        "interaction_constraints": (r"\[\s*\[[\d\s,]+\](\s*,\s*\[[\d\s,]+\])*\s*\]", '"[[1,2],[3,4,5]]"'),
        "monotone_constraints": (r"\(\s*-?[01](\s*,\s*-?[01])*\s*,?\s*\)", '"(0,1,-1)"'),
        "updater": (_LIST, '"grow_histmaker,prune"'),
    }
    return tuple(
        Hyperparameter(name=name, kind="text", form=form, example=example) for name, (form, example) in forms.items()
    )


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
            yield _violation(
                name, hyperparameters[name], reason, f"Set tree_method to {one_of(methods)}, or remove {name}."
            )
    if hyperparameters.get("tree_method") == "gpu_hist" and not use.family.startswith(_ACCELERATED):
        step = "Write an instance type with a GPU, or another tree_method."
        yield _violation("tree_method", "gpu_hist", f"{use.instance_type} has no GPU", step)


def _lists(use: Use) -> Iterator[BrokenRule]:
    hyperparameters = use.hyperparameters
    yield from _metrics(hyperparameters.get("eval_metric", ""), hyperparameters.get("objective", _DEFAULT_OBJECTIVE))
    updaters = [word.strip() for word in hyperparameters.get("updater", "").split(",") if word.strip()]
    if unknown := [word for word in updaters if word not in UPDATERS]:
        yield _violation("updater", unknown[0], "not a valid value", f"Write {one_of(UPDATERS)}.")
    growing = [word for word in updaters if word in TREE_UPDATERS]
    if len(growing) > 1:
        step = f"Keep one of {', '.join(growing)}."
        yield _violation("updater", hyperparameters["updater"], "only one updater can grow trees", step)


def _metrics(value: str, objective: str) -> Iterator[BrokenRule]:
    """Check the evaluation metrics; `error`, `ndcg` and `map` may have a threshold, such as error@0.7."""
    for metric in filter(None, (word.strip() for word in value.split(","))):
        name, at, threshold = metric.partition("@")
        has_threshold = name in ("error", "ndcg", "map") and threshold.replace(".", "", 1).isdigit()
        if metric not in METRICS and not (at and has_threshold):
            yield _violation("eval_metric", metric, "not a valid metric", f"Write {one_of(METRICS)}.")
        elif metric == "auc" and not objective.startswith(("binary:", "rank:")):
            step = "Write an objective that begins with binary: or rank:, or another eval_metric."
            yield _violation("eval_metric", metric, f"auc does not apply to the objective {objective}", step)
        elif metric == "aft-nloglik" and objective != "survival:aft":
            step = "Write the objective survival:aft, or another eval_metric."
            yield _violation("eval_metric", metric, f"aft-nloglik does not apply to the objective {objective}", step)


def _instances(use: Use, version: str) -> Iterator[BrokenRule]:
    """Check GPU instances, for which the page lists families up to version 1.7-1 and none for later ones."""
    families = ("p2", "p3", "p3dn") if version == "1.2-1" else ("p2", "p3", "p3dn", "g4dn", "g5")
    if not use.family.startswith(_ACCELERATED):
        return
    if use.family not in families and not _at_least(version, "3.0-5"):
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
    methods = ("gpu_hist", "hist") if _at_least(version, "3.2-0") else ("gpu_hist",)
    if use.hyperparameters.get("tree_method") not in methods or not use.family.startswith(_ACCELERATED):
        reason = "it requires a GPU instance and a tree method for GPUs"
        step = f"Set tree_method to {one_of(methods)} and write a GPU instance type, or remove it."
        yield _violation("use_dask_gpu_training", "true", reason, step)
    for name, channel in use.channels.items():
        if channel.input_mode == "Pipe" or (channel.mime or LIBSVM[0]) not in (*CSV, *PARQUET):
            reason = "use_dask_gpu_training requires files of CSV or Parquet"
            step = f"Write input_mode File and content_type {one_of((*CSV, *PARQUET))}."
            yield BrokenRule(field="inputs", entry=name, value=channel.content_type, reason=reason, next_step=step)
        if channel.distribution != "FullyReplicated" and use.instance_count > 1:
            reason = "use_dask_gpu_training requires all data on each instance"
            step = "Write distribution FullyReplicated."
            yield BrokenRule(field="inputs", entry=name, value=channel.distribution, reason=reason, next_step=step)


def _violation(name: str, value: str, reason: str, step: str) -> BrokenRule:
    return BrokenRule(field="hyperparameters", entry=name, value=value, reason=reason, next_step=step)
