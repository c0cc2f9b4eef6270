"""Stand-in: the process that runs in place of a built-in algorithm's container.

It reads SageMaker's files (/opt/ml), refuses a job that breaks a published rule of the algorithm or whose data has
another format than its content type, and learns a constant: the mean of the labels, or the most frequent class. Its
metrics are those of that constant, computed from the data, and its model describes the constant. Neither resembles the
results of the real algorithm.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from localcloud.sagemaker.algorithms import image_learner, table_learner, xgboost_container
from localcloud.sagemaker.algorithms.job import AlgorithmJob, JobError
from traingrid.algorithms.algorithm import ChannelUse, Use
from traingrid.algorithms.built_in import built_in

Learner = Callable[[AlgorithmJob], dict[str, Any]]
_LEARNERS: Mapping[str, Learner] = {
    "image-classification": image_learner.classify,
    "object-detection": image_learner.detect,
    "xgboost": table_learner.regress_or_classify,
}
_MODELS = {"xgboost": "xgboost-model"}
_NOTE = "Written by localcloud in place of {name}: a constant prediction, which no endpoint can load."


def main(name: str, version: str, base: Path) -> int:
    """Run one host of a training job, and return its exit code.

    Args:
        name: The algorithm.
        base: The folder in place of /opt/ml.
    """
    job = AlgorithmJob.read(base)
    try:
        _check(job, name, version)
        learned = _LEARNERS[name](job)
    except JobError as error:
        print(f"ClientError: {error}", flush=True)
        (base / "output/failure").write_text(f"ClientError: {error}")
        return 1
    if job.is_first_host:
        content = {"note": _NOTE.format(name=name), "hyperparameters": job.hyperparameters, **learned}
        (base / "model" / _MODELS.get(name, "model.json")).write_text(json.dumps(content, indent=1))
    return 0


def _check(job: AlgorithmJob, name: str, version: str) -> None:
    """Refuse a job that breaks a rule, as the real container does when it starts.

    Raises:
        JobError: A rule is broken.
    """
    algorithm = built_in(name, version)
    if algorithm is None:
        message = f"there is no stand-in for {name} {version}"
        raise JobError(message)
    if name == "xgboost" and (problem := xgboost_container.problem(job.hyperparameters, version)):
        raise JobError(problem)
    uses = {
        channel: ChannelUse(
            content_type=config.get("ContentType", ""),
            input_mode=config["TrainingInputMode"],
            distribution=config["S3DistributionType"],
        )
        for channel, config in job.channels.items()
    }
    use = Use(
        hyperparameters=job.hyperparameters,
        channels=uses,
        instance_type=job.instance_type,
        instance_count=len(job.hosts),
    )
    if broken := algorithm.algorithm.violations(use):
        first = broken[0]
        where = " ".join(part for part in (first.field, first.entry, first.value) if part)
        message = f"{where}: {first.reason}. {first.next_step}"
        raise JobError(message)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(os.environ["SAGEMAKER_BASE_DIR"])))
