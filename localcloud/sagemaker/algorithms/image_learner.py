"""Image learner: the stand-in for image-classification and object-detection, which reads labels but no pixels.

Formats: https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html#IC-inputoutput and
https://docs.aws.amazon.com/sagemaker/latest/dg/object-detection.html#object-detection-inputoutput. The labels of an
object in RecordIO are those of MXNet's im2rec
(https://mxnet.apache.org/versions/1.9.1/api/python/docs/api/mxnet/image/index.html): the lengths of the header and of
an object, then a class and four corners from 0 to 1 for each object.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from localcloud.sagemaker.algorithms.job import AlgorithmJob, JobError
from localcloud.sagemaker.algorithms.recordio import RecordIOError, records

RECORDIO = "application/x-recordio"
_IMAGES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n")
_HEADER, _OBJECT = 2, 5
_LST_COLUMNS = 3


def classify(job: AlgorithmJob) -> dict[str, Any]:
    """Learn the most frequent class, and print its accuracy for each epoch.

    Raises:
        JobError: The data is invalid.
    """
    labels = {name: _classes(job, name) for name in ("train", "validation")}
    _check_number(job, len(labels["train"]))
    constant = Counter(labels["train"]).most_common(1)[0][0]
    for epoch in range(_epochs(job)):
        for name, values in labels.items():
            accuracy = sum(value == constant for value in values) / len(values)
            print(f"Epoch[{epoch}] {name.capitalize()}-accuracy={accuracy:.6f}")
    return {"prediction": constant, "samples": {name: len(values) for name, values in labels.items()}}


def detect(job: AlgorithmJob) -> dict[str, Any]:
    """Learn that there are no objects, whose mean average precision is 0, and print it for each epoch.

    Raises:
        JobError: The data is invalid.
    """
    objects = {name: _objects(job, name) for name in ("train", "validation")}
    _check_number(job, len(objects["train"]))
    for epoch in range(_epochs(job)):
        print(f"#quality_metric: host={job.host}, epoch={epoch}, validation mAP <score>=(0.0)")
    return {"prediction": [], "objects": {name: sum(values) for name, values in objects.items()}}


def _epochs(job: AlgorithmJob) -> int:
    return int(job.hyperparameters.get("epochs", "30"))


def _check_number(job: AlgorithmJob, samples: int) -> None:
    """Warn as the page does: with another number, the learning rate schedule is undefined."""
    expected = int(job.hyperparameters["num_training_samples"])
    if expected != samples:
        print(f"[WARNING] num_training_samples is {expected}, but the channel train has {samples} samples")


def _classes(job: AlgorithmJob, channel: str) -> list[int]:
    classes = (
        [_whole(labels[0]) for labels in _labels(job, channel)]
        if _is_recordio(job, channel)
        else _labels_of_list(job, channel)
    )
    return _checked_labels(job, channel, classes)


def _checked_labels(job: AlgorithmJob, channel: str, labels: list[int]) -> list[int]:
    classes = int(job.hyperparameters["num_classes"])
    if not labels:
        message = f"the channel {channel} has no samples"
        raise JobError(message)
    if wrong := [label for label in labels if not 0 <= label < classes]:
        message = f"the channel {channel} has the label {wrong[0]}, but num_classes is {classes}"
        raise JobError(message)
    return labels


def _objects(job: AlgorithmJob, channel: str) -> list[int]:
    """Return the number of objects of each image."""
    labels_of_images = (
        map(_boxes, _labels(job, channel)) if _is_recordio(job, channel) else _annotated_labels(job, channel)
    )
    labels_by_image = list(labels_of_images)
    _checked_labels(job, channel, [label for labels in labels_by_image for label in labels])
    return [len(labels) for labels in labels_by_image]


def _is_recordio(job: AlgorithmJob, channel: str) -> bool:
    return job.content_type(channel) == RECORDIO


def _labels(job: AlgorithmJob, channel: str) -> Iterator[Sequence[float]]:
    for name, content in job.blobs(channel):
        try:
            for record in records(content):
                _check_image(record.image, name)
                yield record.labels
        except RecordIOError as error:
            message = f"the file {name} of the channel {channel} is not in the format RecordIO: {error}"
            raise JobError(message) from None


def _boxes(labels: Sequence[float]) -> list[int]:
    """Return the classes of one image's objects."""
    if len(labels) < _HEADER or labels[0] < _HEADER or labels[1] < _OBJECT:
        message = "a record has no labels of objects: header length, object length, then class and four corners"
        raise JobError(message)
    header, length = _whole(labels[0]), _whole(labels[1])
    objects = [labels[start : start + length] for start in range(header, len(labels), length)]
    if any(len(box) < length or not all(0 <= corner <= 1 for corner in box[1:_OBJECT]) for box in objects):
        message = "the corners of an object must be four numbers from 0 to 1"
        raise JobError(message)
    return [_whole(box[0]) for box in objects]


def _labels_of_list(job: AlgorithmJob, channel: str) -> list[int]:
    """Return the labels of a .lst file: index, label and path of each image, separated by tabs."""
    images, labels = dict(job.blobs(channel)), []
    for name, content in job.blobs(f"{channel}_lst"):
        for line in content.decode(errors="replace").splitlines():
            columns = line.split("\t")
            if len(columns) < _LST_COLUMNS or columns[-1] not in images:
                message = f"line '{line[:60]}' of {name} does not name a label and an image of the channel {channel}"
                raise JobError(message)
            _check_image(images[columns[-1]], columns[-1])
            labels.append(_whole(float(columns[1])))
    return labels


def _annotated_labels(job: AlgorithmJob, channel: str) -> Iterator[list[int]]:
    images = dict(job.blobs(channel))
    for name, content in job.blobs(f"{channel}_annotation"):
        try:
            document = json.loads(content)
            classes = [int(annotation["class_id"]) for annotation in document["annotations"]]
            image = images[document["file"]]
        except (ValueError, KeyError, TypeError) as error:
            message = f"the annotation {name} is invalid or its image is missing: {error!r}"
            raise JobError(message) from None
        _check_image(image, document["file"])
        yield classes


def _whole(number: float) -> int:
    if number != int(number):
        message = f"the label {number} is not a whole number"
        raise JobError(message)
    return int(number)


def _check_image(content: bytes, name: str) -> None:
    if not content.startswith(_IMAGES):
        message = f"{name} has content that is neither JPEG nor PNG"
        raise JobError(message)
