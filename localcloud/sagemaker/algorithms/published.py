"""Published images: the images of AWS's built-in algorithms in AWS's own registries, and the metrics that they define.

Each is a process of this checkout, `python -m localcloud.sagemaker.algorithms.stand_in NAME VERSION`.
"""

import sys
from pathlib import Path
from typing import Any

from localcloud.ecr import pulls
from localcloud.ecr.process_images import ProcessImage
from localcloud.sagemaker.algorithms import xgboost_container
from traingrid.algorithms.built_in import BuiltIn, is_known_image, of_image

_CHECKOUT = Path(__file__).resolve().parents[3]
_NUMBER = r"([-+0-9.eE]+)"

# The names: https://docs.aws.amazon.com/sagemaker/latest/dg/IC-tuning.html and object-detection-tuning.html beside it.
# The regular expressions are ours, for the stand-ins' lines.
_VISION = {
    "image-classification": [{"Name": "validation:accuracy", "Regex": rf"Validation-accuracy={_NUMBER}"}],
    "object-detection": [{"Name": "validation:mAP", "Regex": rf"validation mAP <score>=\({_NUMBER}\)"}],
}


def published(image_uri: str) -> BuiltIn | None:
    """Return the built-in algorithm with an image URI, or None if no registry of AWS has this image."""
    return of_image(image_uri.partition("/")[2]) if is_known_image(image_uri) else None


def resolve(account: str, image_uri: str) -> ProcessImage:
    """Return the process of an image URI: one in a local registry, or the stand-in for a built-in algorithm.

    Args:
        account: Calling account; a repository of another account must allow it to pull.
        image_uri: ECR URI.

    Raises:
        InvalidImageError: If the URI is not an ECR URI.
        ImageNotFoundError: If the image does not exist.
    """
    try:
        return pulls.resolve(account, image_uri)
    except pulls.ImageNotFoundError:
        algorithm = published(image_uri)
        if algorithm is None:
            raise
    module = "localcloud.sagemaker.algorithms.stand_in"
    command = (sys.executable, "-m", module, algorithm.algorithm.name, algorithm.version)
    return ProcessImage(command=command, working_directory=str(_CHECKOUT))


def metric_definitions(image_uri: str) -> list[dict[str, Any]]:
    """Return the metrics that the algorithm of an image defines; none for other images.

    xgboost's are those of src/sagemaker_xgboost_container/algorithm_mode/metrics.py
    (https://github.com/aws/sagemaker-xgboost-container).
    """
    algorithm = published(image_uri)
    if algorithm is None:
        return []
    if algorithm.algorithm.name == "xgboost":
        return [
            {"Name": f"validation:{name}", "Regex": rf".*\[[0-9]+\].*#011validation-{name}:(\S+)"}
            for name in xgboost_container.record()["lists"]["eval_metric"]
        ]
    return _VISION[algorithm.algorithm.name]
