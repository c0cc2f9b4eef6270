"""Algorithm checks: lines that train a built-in algorithm, against its published rules."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.sample_deployment import sample_deployment
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.manifest.errors import LineError, ManifestError
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

ALGORITHMS = {
    "classes": {"algorithm": "image-classification", "version": "1"},
    "boxes": {"algorithm": "object-detection", "version": "1"},
    "trees": {"algorithm": "xgboost", "version": "1.7-1"},
    "newer": {"algorithm": "xgboost", "version": "3.2-0"},
    "means": {"algorithm": "kmeans", "version": "1"},
}
GPU, CPU = "ml.p3.16xlarge", "ml.m5.xlarge"
RECORDS, PICTURES = "application/x-recordio", "application/x-image"
COUNTS = {"num_classes": 10, "num_training_samples": 1000}


def deployment(**changes: Any) -> Deployment:
    sample = sample_deployment()
    described = sample.grid.model_dump(mode="json", exclude_defaults=True)
    described |= {
        "images": {**described["images"], **ALGORITHMS},
        "instance_types": [CPU, "ml.g5.xlarge", "ml.g6.xlarge"],
    }
    return replace(sample, grid=GridSettings.model_validate(described | changes))


def channels(content_type: str, *names: str, **fields: Any) -> dict[str, Any]:
    return {
        name: {"uri": f"s3://ragab-ml/{name}/", "content_type": content_type, **fields}
        for name in names or ("train", "validation")
    }


def vision(image: str = "classes", **changes: Any) -> dict[str, Any]:
    """Return a valid line of image-classification or object-detection."""
    line = {"image": image, "hyperparameters": COUNTS, "inputs": channels(RECORDS)}
    return line | changes


def trees(**changes: Any) -> dict[str, Any]:
    """Return a valid line of xgboost on CPUs; keyword arguments are hyperparameters, and fields with `_`."""
    fields = {
        name: changes.pop(name)
        for name in list(changes)
        if name in ("inputs", "image", "instance_type", "instance_count")
    }
    line = {
        "image": "trees",
        "instance_type": CPU,
        "hyperparameters": {"num_round": 10, **changes},
        "inputs": channels("text/csv"),
    }
    return line | fields


def errors_of(line: dict[str, Any], there: Deployment | None = None) -> list[LineError]:
    """Return the errors of a line, none if it is valid."""
    there = there or deployment()
    try:
        lines = parse(json.dumps({"region": "us-east-1", **line}).encode(), there)
    except ManifestError as caught:
        return caught.errors
    assert jobs_of_lines(lines, there, "00000000")
    return []


@pytest.mark.parametrize(
    "line",
    [
        vision(),
        vision("boxes"),
        vision(hyperparameters={**COUNTS, "optimizer": "adam", "epochs": 3, "lr_scheduler_step": "10, 20"}),
        vision(hyperparameters={**COUNTS, "early_stopping": "True", "image_shape": "3,32,32", "num_layers": 20}),
        vision(
            inputs=channels(PICTURES, "train", "validation", "train_lst", "validation_lst"),
            hyperparameters={**COUNTS, "resize": 256},
        ),
        vision("boxes", inputs=channels(PICTURES, "train", "validation", "train_annotation", "validation_annotation")),
        vision(inputs=channels(RECORDS, input_mode="Pipe", distribution="FullyReplicated"), instance_count=2),
        vision(inputs=channels(f"{RECORDS}; label-format=class-id")),
        trees(),
        trees(objective="multi:softmax", num_class=3, learning_rate=0.1, eval_metric="merror,mlogloss"),
        trees(objective="survival:aft", eval_metric="aft-nloglik"),
        trees(objective="rank:pairwise", eval_metric="auc"),
        trees(objective="binary:logistic", eval_metric="error@1e-3"),
        trees(booster="gblinear", updater="coord_descent"),
        trees(process_type="update", updater="refresh,prune"),
        vision("boxes", inputs=channels(RECORDS, input_mode="Pipe", distribution="ShardedByS3Key"), instance_count=2),
        trees(inputs={"train": "s3://ragab-ml/train/"}),
        trees(instance_type=GPU, tree_method="gpu_hist"),
        trees(instance_type=GPU, tree_method="gpu_hist", use_dask_gpu_training="true", instance_count=2),
        trees(image="newer", objective="reg:absoluteerror", instance_type="ml.g6.xlarge"),
        {"image": "means", "hyperparameters": {"anything": "1"}, "inputs": {"train": "s3://ragab-ml/train/"}},
    ],
)
def test_valid_lines_are_accepted(line: dict[str, Any]) -> None:
    assert errors_of(line) == []


@pytest.mark.parametrize(
    ("line", "field", "reason", "step"),
    [
        (
            vision(hyperparameters={"num_classes": 10}),
            "hyperparameters.num_training_samples",
            "requires it",
            "whole number of at least 1",
        ),
        (
            vision(hyperparameters={**COUNTS, "epoch": 3}),
            "hyperparameters.epoch",
            "no hyperparameter of this name",
            "Did you mean epochs?",
        ),
        (
            vision(hyperparameters={**COUNTS, "epochs": 1.5}),
            "hyperparameters.epochs",
            "must be a whole number",
            "at least 1",
        ),
        (vision(hyperparameters={**COUNTS, "epochs": 0}), "hyperparameters.epochs", "out of range", "at least 1"),
        (
            vision(hyperparameters={**COUNTS, "learning_rate": 2}),
            "hyperparameters.learning_rate",
            "out of range",
            "of at least 0 and at most 1",
        ),
        (
            vision(hyperparameters={**COUNTS, "learning_rate": "nan"}),
            "hyperparameters.learning_rate",
            "must be a number",
            "at most 1",
        ),
        (
            vision(hyperparameters={**COUNTS, "optimizer": "lamb"}),
            "hyperparameters.optimizer",
            "not a valid value",
            "sgd, adam, rmsprop or nag",
        ),
        (
            vision(hyperparameters={**COUNTS, "early_stopping": True}),
            "hyperparameters.early_stopping",
            'must be spelled "True"',
            "True or False",
        ),
        (
            vision(hyperparameters={**COUNTS, "image_shape": "224x224"}),
            "hyperparameters.image_shape",
            "required form",
            "3,224,224",
        ),
        (
            vision(hyperparameters={**COUNTS, "use_pretrained_model": 1, "num_layers": 20}),
            "hyperparameters.num_layers",
            "no pretrained network",
            "18, 34",
        ),
        (
            vision(hyperparameters={**COUNTS, "use_pretrained_model": 1, "image_shape": "3,32,32"}),
            "hyperparameters.image_shape",
            "fixed image size",
            "3,224,224",
        ),
        (
            vision(hyperparameters={**COUNTS, "epochs": 3, "checkpoint_frequency": 4}),
            "hyperparameters.checkpoint_frequency",
            "exceed epochs",
            "at most 3",
        ),
        (vision(instance_type=CPU), "instance_type", "does not train on this instance type", "ml.p3"),
        (vision(inputs=channels(RECORDS, "train")), "inputs", "requires the channel validation", "Add validation"),
        (
            vision(inputs=channels(RECORDS, "train", "validation", "test")),
            "inputs.test",
            "no channel of this name",
            "train, validation",
        ),
        (
            vision(inputs=channels("text/csv", "train", "validation")),
            "inputs.train",
            "requires another content_type",
            RECORDS,
        ),
        (
            vision(inputs={**channels(RECORDS), "train": "s3://ragab-ml/train/"}),
            "inputs.train",
            "requires the content_type",
            RECORDS,
        ),
        (
            vision(inputs=channels(RECORDS, input_mode="FastFile")),
            "inputs.train",
            "the input mode FastFile",
            "File or Pipe",
        ),
        (
            vision(inputs=channels(PICTURES, input_mode="Pipe")),
            "inputs.train",
            "another content_type in Pipe mode",
            RECORDS,
        ),
        (
            vision(inputs=channels(RECORDS, input_mode="Pipe"), instance_count=2),
            "inputs.train",
            "shards a stream",
            "FullyReplicated",
        ),
        (
            vision(inputs=channels(PICTURES), hyperparameters={**COUNTS, "resize": 256}),
            "inputs",
            "requires the channel train_lst",
            RECORDS,
        ),
        (
            vision(inputs=channels(PICTURES, "train", "validation", "train_lst", "validation_lst")),
            "hyperparameters.resize",
            "requires it",
            "at least 1",
        ),
        (
            vision(streams="rank", inputs=channels(RECORDS, input_mode="Pipe")),
            "streams",
            "one stream per rank",
            "streams host",
        ),
        (
            vision("boxes", hyperparameters={**COUNTS, "learning_rate": 0}),
            "hyperparameters.learning_rate",
            "out of range",
            "greater than 0",
        ),
        (
            vision("boxes", hyperparameters={**COUNTS, "weight_decay": 1}),
            "hyperparameters.weight_decay",
            "out of range",
            "less than 1",
        ),
        (
            vision("boxes", hyperparameters={**COUNTS, "image_shape": 256}),
            "hyperparameters.image_shape",
            "out of range",
            "300",
        ),
        (trees(num_round=0), "hyperparameters.num_round", "out of range", "at least 1"),
        (trees(eta=1.5), "hyperparameters.eta", "out of range", "at most 1"),
        (trees(subsample=0), "hyperparameters.subsample", "out of range", "greater than 0"),
        (trees(learning_rate=7), "hyperparameters.learning_rate", "out of range", "at most 1"),
        (
            trees(objective="multi:softmax"),
            "hyperparameters.num_class",
            "the objective multi:softmax requires it",
            "at least 2",
        ),
        (trees(objective="reg:absoluteerror"), "hyperparameters.objective", "not a valid value", "reg:squarederror"),
        (trees(tree_method="gpu_hist"), "hyperparameters.tree_method", "has no GPU", "with a GPU"),
        (trees(eval_metric="rmse"), "hyperparameters.objective", "eval_metric requires it", "reg:squarederror"),
        (
            trees(eval_metric="auc", objective="reg:squarederror"),
            "hyperparameters.eval_metric",
            "auc does not apply",
            "binary:",
        ),
        (
            trees(eval_metric="aft-nloglik", objective="reg:squarederror"),
            "hyperparameters.eval_metric",
            "aft-nloglik does not apply",
            "survival:aft",
        ),
        (
            trees(eval_metric="rmse,best", objective="reg:squarederror"),
            "hyperparameters.eval_metric",
            "not a valid metric",
            "rmse",
        ),
        (trees(updater="shotgun"), "hyperparameters.updater", "does not apply to a booster of trees", "grow_colmaker"),
        (trees(updater="prune", booster="gblinear"), "hyperparameters.updater", "the booster gblinear", "shotgun"),
        (
            trees(inputs=channels("text/csv; label_size=1")),
            "inputs.train",
            "requires another content_type in File mode",
            "text/csv",
        ),
        (
            trees(monotone_constraints="(1,-1)"),
            "hyperparameters.monotone_constraints",
            "only some tree methods",
            "exact or hist",
        ),
        (trees(monotone_constraints="(2)"), "hyperparameters.monotone_constraints", "required form", "(0,1,-1)"),
        (trees(updater="grow_colmaker,grow_histmaker"), "hyperparameters.updater", "only one updater", "Keep one"),
        (
            trees(inputs=channels("text/libsvm", input_mode="Pipe", distribution="FullyReplicated")),
            "inputs.train",
            "another content_type in Pipe mode",
            "text/csv",
        ),
        (
            trees(image="newer", inputs=channels("text/csv", "train", input_mode="Pipe")),
            "inputs.train",
            "input mode Pipe",
            "File or FastFile",
        ),
        (
            trees(instance_type=GPU, instance_count=2),
            "instance_count",
            "several GPU instances",
            "use_dask_gpu_training",
        ),
        (trees(instance_type="ml.g6.xlarge"), "instance_type", "does not train on this instance type", "ml.g5"),
        (
            trees(use_dask_gpu_training="true"),
            "hyperparameters.use_dask_gpu_training",
            "requires a GPU instance",
            "gpu_hist",
        ),
    ],
)
def test_a_broken_rule_is_refused_with_field_and_allowed_values(
    line: dict[str, Any], field: str, reason: str, step: str
) -> None:
    errors = errors_of(line)
    assert [error.line for error in errors if error.field == field and reason in error.reason] == [1], errors
    assert any(step in error.next_step for error in errors), errors


def test_all_broken_rules_of_a_line_are_reported() -> None:
    broken = vision(hyperparameters={"epochs": 0, "optimizer": "x"}, instance_type=CPU)
    assert [error.field for error in errors_of(broken)] == [
        *("hyperparameters.epochs", "hyperparameters.optimizer"),
        *("hyperparameters.num_classes", "hyperparameters.num_training_samples", "instance_type"),
    ]


def test_a_missing_hyperparameter_has_the_name_of_its_column_in_csv() -> None:
    with pytest.raises(ManifestError) as refused:
        parse(b"region,s3_uri,image,instance_type\nus-east-1,s3://ragab-ml/x,trees,ml.m5.xlarge\n", deployment())
    (error,) = refused.value.errors
    assert (error.line, error.field) == (2, "hp.num_round")


def test_a_region_without_the_algorithm_is_refused() -> None:
    there = deployment(
        regions={"us-east-1": {"data_buckets": ["ragab-ml"]}, "mx-central-1": {"data_buckets": ["ragab-mx"]}}
    )
    line = vision(
        region="mx-central-1",
        inputs={name: {**channel, "uri": "s3://ragab-mx/a/"} for name, channel in channels(RECORDS).items()},
    )
    (error,) = errors_of(line, there)
    assert (error.field, error.value) == ("region", "'mx-central-1'")
    assert "AWS does not offer image-classification 1 in mx-central-1" in error.reason
    assert "us-east-1" in error.next_step


def test_the_grids_default_algorithm_is_checked_too() -> None:
    job = {"image": "trees", "instance_type": CPU, "hyperparameters": {"num_round": 10}}
    plain = {"s3_uri": "s3://ragab-ml/x"}
    assert errors_of(plain, deployment(job=job)) == []
    (error,) = errors_of({**plain, "hyperparameters": {"num_round": -1}}, deployment(job=job))
    assert error.field == "hyperparameters.num_round"


def test_a_planned_grid_knows_the_registry_of_a_known_algorithm() -> None:
    there = deployment()
    expected = "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-xgboost:1.7-1"
    assert there.image_uri("trees", "us-east-1") == expected
