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

from localcloud.sagemaker.algorithms import image_learner, image_pages, table_learner, xgboost_container
from localcloud.sagemaker.algorithms.job import AlgorithmJob, JobError

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
    is_xgboost = name == "xgboost"
    problem = xgboost_container.job_problem(job, version) if is_xgboost else image_pages.job_problem(job, name)
    if problem:
        raise JobError(problem)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(os.environ["SAGEMAKER_BASE_DIR"])))
