"""xgboost container: the product's rules and the independent record of the container refuse the same jobs."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.sagemaker.algorithms import xgboost_container
from localcloud.sagemaker.algorithms.job import AlgorithmJob
from traingrid.algorithms.algorithm import BrokenRule, ChannelUse, Use
from traingrid.algorithms.built_in import built_in
from traingrid.algorithms.xgboost import VERSIONS

RECORD = xgboost_container.record()
# The container's list of objectives also has the name of another hyperparameter, which no objective has.
NO_OBJECTIVE = ("objective", "aft_loss_distribution")


def names() -> set[str]:
    intervals = [name for table in ("intervals", "real_intervals") for row in RECORD[table].values() for name in row]
    return {*intervals, *RECORD["words"], *RECORD["lists"], *RECORD["aliases"]}


def values(name: str) -> Iterator[str]:
    """Yield values around the limits of a hyperparameter, and each of its words alone and changed."""
    yield from ("", "x", "-1", "0", "0.0", "0.5", "1", "1.0", "1.5", "2", "3", "4", "1e3", "nan", "true", "TRUE")
    yield from (str(limit + step) for limit in (-(2**31), 2**31 - 1) for step in (-1, 0, 1))
    for table in ("words", "lists"):
        for word in RECORD[table].get(name, ()):
            yield from (word, f"{word}x", f" {word}", word.upper())
    if name in RECORD["lists"]:
        first, second = RECORD["lists"][name][4:6]
        yield from (f"{first},{second}", f"{first}, {second}", f"{first},", f",{first}", f"{first},,{second}")
    if name == "updater":
        yield "grow_quantile_histmaker"
    if name == "eval_metric":
        yield from ("error@0.7", "error@1e-3", "error@-1", "error@x", "ndcg@3", "rmse@1", "error@", "@1")


def violations(hyperparameters: dict[str, str], version: str) -> list[BrokenRule]:
    algorithm = built_in("xgboost", version)
    assert algorithm
    channels = {"train": ChannelUse(content_type="text/csv")}
    return algorithm.algorithm.violations(
        Use(hyperparameters=hyperparameters, channels=channels, instance_type="ml.p3.2xlarge")
    )


def given(name: str, value: str) -> dict[str, str]:
    """Return hyperparameters with those that the value requires."""
    objectives = {"auc": "binary:logistic", "aft-nloglik": "survival:aft"}
    objective = {"objective": objectives.get(value, "reg:squarederror")} if name == "eval_metric" else {}
    classes = {"num_class": "3"} if name == "objective" else {}
    method = {"tree_method": "gpu_hist"} if name == "use_dask_gpu_training" else {}
    return {"num_round": "1", **objective, **classes, **method, name: value}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_product_refuses_exactly_the_values_that_the_container_refuses(version: str) -> None:
    different = [
        (name, value, [violation.reason for violation in broken])
        for name in sorted(names())
        for value in values(name)
        if (name, value) != NO_OBJECTIVE
        for broken in [violations(given(name, value), version)]
        if bool(broken) != bool(xgboost_container.hyperparameter_problem(given(name, value), version))
    ]
    assert not different


COMBINATIONS = [
    {"eval_metric": "rmse"},
    {"eval_metric": "auc", "objective": "reg:squarederror"},
    {"eval_metric": "aft-nloglik", "objective": "survival:cox"},
    {"objective": "multi:softprob"},
    {"num_class": "3", "objective": "reg:gamma"},
    *(
        {"updater": updater, **booster, **process}
        for updater in ("shotgun", "shotgun,coord_descent", "grow_colmaker", "grow_colmaker,distcol", "prune,refresh")
        for booster in ({}, {"booster": "gbtree"}, {"booster": "gblinear"})
        for process in ({}, {"process_type": "default"}, {"process_type": "update"})
    ),
    *(
        {constraint: value, **method}
        for constraint, value in (("monotone_constraints", "(0,1)"), ("interaction_constraints", "[[1,2]]"))
        for method in ({}, *({"tree_method": word} for word in ("auto", "exact", "approx", "hist", "gpu_hist")))
    ),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_product_refuses_the_combinations_that_the_container_refuses(version: str) -> None:
    different = []
    for values_of_job in COMBINATIONS:
        hyperparameters = {"num_round": "1", **values_of_job}
        reasons = [violation.reason for violation in violations(hyperparameters, version)]
        if bool(reasons) != bool(problem := xgboost_container.hyperparameter_problem(hyperparameters, version)):
            different.append((values_of_job, reasons, problem))
    assert not different


CONTENT_TYPES = (
    *("", "csv", "text/csv", "TEXT/CSV", "text/csv; label_size=1", "text/libsvm", "text/x-libsvm", "libsvm"),
    *("application/x-parquet", "application/x-recordio-protobuf", "recordio-protobuf", "text/plain"),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_product_refuses_the_channels_that_the_container_refuses(version: str, tmp_path: Path) -> None:
    names_of_channels = (("train",), ("train", "validation"), ("validation",), ("train", "test"))
    gpu = [{"tree_method": "gpu_hist", "use_dask_gpu_training": use} for use in ("true", "false")]
    settings = itertools.product(
        *(names_of_channels, CONTENT_TYPES, ("File", "Pipe"), ("FullyReplicated", "ShardedByS3Key")),
        *(({}, {"tree_method": "hist", "use_dask_gpu_training": "true"}, *gpu), ("ml.m5.xlarge", "ml.p3.2xlarge")),
    )
    different = []
    for channels, content_type, mode, distribution, hyperparameters, instance_type in settings:
        use = Use(
            hyperparameters={"num_round": "1", **hyperparameters},
            channels=dict.fromkeys(
                channels, ChannelUse(content_type=content_type, input_mode=mode, distribution=distribution)
            ),
            instance_type=instance_type,
        )
        job = job_of(use, tmp_path)
        algorithm = built_in("xgboost", version)
        assert algorithm
        reasons = [violation.reason for violation in algorithm.algorithm.violations(use)]
        if bool(reasons) != bool(problem := xgboost_container.job_problem(job, version)):
            different.append((use, reasons, problem))
    assert not different


def job_of(use: Use, base: Path) -> AlgorithmJob:
    """Return a training job as its container reads it."""
    channels = {
        name: {"TrainingInputMode": channel.input_mode, "S3DistributionType": channel.distribution}
        | ({"ContentType": channel.content_type} if channel.content_type else {})
        for name, channel in use.channels.items()
    }
    hosts = tuple(f"algo-{number}" for number in range(1, use.instance_count + 1))
    return AlgorithmJob(
        base=base, hyperparameters=use.hyperparameters, channels=channels, instance_type=use.instance_type,
        host=hosts[0], hosts=hosts,
    )  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_the_product_knows_the_hyperparameters_of_the_container(version: str) -> None:
    algorithm = built_in("xgboost", version)
    assert algorithm
    unknown = {"x": "1"} | dict.fromkeys(names() | {*RECORD["any_text"]}, "1")
    refused = {
        name
        for name in unknown
        if "no hyperparameter" in xgboost_container.hyperparameter_problem(given(name, "1"), version)
    }
    own = {hyperparameter.name for hyperparameter in algorithm.algorithm.hyperparameters}
    assert own == {*unknown} - refused - {*RECORD["aliases"]}
    assert xgboost_container.hyperparameter_problem({}, version) == "num_round: xgboost requires it"
    assert {*algorithm.algorithm.aliases.items()} == {*RECORD["aliases"].items()}


def test_each_interval_of_the_record_is_one() -> None:
    intervals = [*RECORD["intervals"], *RECORD["real_intervals"]]
    assert all(re.fullmatch(r"[\[(]-?[\d.]+, (inf|[\d.]+)[\])]", interval) for interval in intervals)
    assert VERSIONS == xgboost_container.VERSIONS
