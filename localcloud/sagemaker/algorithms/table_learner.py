"""Table learner: the stand-in for xgboost, which reads CSV and LIBSVM and predicts one constant.

Formats: https://docs.aws.amazon.com/sagemaker/latest/dg/xgboost.html#InputOutput-XGBoost. CSV has the label in the
first column and no header; LIBSVM is `label[:weight] index:value ...`.
"""

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from localcloud.sagemaker.algorithms.job import AlgorithmJob, JobError

Score = Callable[[Sequence[float], float], float]
_SHOWN = 60
# Of get_content_type() in src/sagemaker_xgboost_container/data_utils.py of https://github.com/aws/sagemaker-xgboost-container
CSV = ("text/csv", "csv")
LIBSVM = ("text/libsvm", "text/x-libsvm", "libsvm")


def regress_or_classify(job: AlgorithmJob) -> dict[str, Any]:
    """Learn the mean of the labels, or their most frequent class, and print a line for each round.

    Raises:
        JobError: The data does not have the format of its content type.
    """
    labels = {channel: _labels(job, channel) for channel in ("train", "validation") if channel in job.channels}
    objective = job.hyperparameters.get("objective", "reg:squarederror")
    _check_labels(labels["train"], objective, job)
    classes = objective.startswith(("binary:", "multi:"))
    train = labels["train"]
    constant = Counter(train).most_common(1)[0][0] if classes else sum(train) / len(train)
    metric, score = ("error", _error) if objective.startswith("binary:") else ("rmse", _rmse)
    metric, score = ("merror", _error) if objective.startswith("multi:") else (metric, score)
    print(
        f"[INFO] localcloud stand-in of xgboost: {len(train)} rows, constant prediction {constant:g}, metric {metric}"
    )
    scores = "".join(f"#011{name}-{metric}:{score(values, constant):.5f}" for name, values in labels.items())
    for number in range(int(job.hyperparameters["num_round"])):
        print(f"[{number}]{scores}")
    return {"prediction": constant, "rows": {name: len(values) for name, values in labels.items()}}


def _rmse(labels: Sequence[float], constant: float) -> float:
    return math.sqrt(sum((label - constant) ** 2 for label in labels) / len(labels))


def _error(labels: Sequence[float], constant: float) -> float:
    return sum(label != constant for label in labels) / len(labels)


def _check_labels(labels: Sequence[float], objective: str, job: AlgorithmJob) -> None:
    """Check the range of labels (LOGISTIC_REGRESSION_LABEL_RANGE_ERROR and its neighbors in the container's source)."""
    if objective in ("binary:logistic", "reg:logistic") and not all(0 <= label <= 1 for label in labels):
        message = "label must be in [0,1] for logistic regression"
        raise JobError(message)
    if objective.startswith("multi:"):
        classes = int(job.hyperparameters["num_class"])
        if not all(0 <= label < classes and label == int(label) for label in labels):
            message = "label must be in [0, num_class)"
            raise JobError(message)


def _labels(job: AlgorithmJob, channel: str) -> list[float]:
    mime = job.content_type(channel, LIBSVM[0])
    labels = list[float]()
    for name, content in job.blobs(channel):
        text = content.decode(errors="replace")
        if mime in CSV:
            labels += [_csv_label(row, name) for row in csv.reader(io.StringIO(text)) if row]
        elif mime in LIBSVM:
            labels += [_libsvm_label(line, name) for line in text.splitlines() if line.strip()]
        else:
            message = f"localcloud's stand-in of xgboost cannot read {mime}; use text/csv or text/libsvm"
            raise JobError(message)
    if not labels:
        message = f"the channel {channel} has no rows"
        raise JobError(message)
    return labels


def _csv_label(row: Sequence[str], name: str) -> float:
    """Return the label of a row whose cells are all numbers; an empty cell is a missing value."""
    try:
        numbers = [float(cell) if cell.strip() else math.nan for cell in row]
    except ValueError:
        raise _line_error(",".join(row), name, "CSV") from None
    if len(numbers) < 2 or math.isnan(numbers[0]):
        raise _line_error(",".join(row), name, "CSV")
    return numbers[0]


def _libsvm_label(line: str, name: str) -> float:
    label, *features = line.split()
    try:
        for feature in features:
            index, value = feature.split(":")
            int(index)  # raises ValueError, as float() does
            float(value)
        numbers = [float(part) for part in label.split(":")]
    except ValueError:
        raise _line_error(line, name, "LIBSVM") from None
    if len(numbers) > 2:
        raise _line_error(line, name, "LIBSVM")
    return numbers[0]


def _line_error(line: str, name: str, form: str) -> JobError:
    return JobError(f"line '{line[:_SHOWN]}' of file '{name}' is not in the format {form}")
