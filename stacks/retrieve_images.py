"""The SageMaker Python SDK's answer to which container is where; run by `stacks.image_tables` in .venv-images.

The SDK brings 50 packages, of which some must be older than the CDK app's own, so it has an environment of its own.

Input: JSON, a list of {"framework", "version", "target", "python", "regions"}. Output: JSON, for each of them the URIs
by Region, or why there is none.
"""

import json
import sys
from typing import Any

INSTANCE_TYPES = {"cpu": "ml.c5.xlarge", "gpu": "ml.g5.xlarge"}
"""Any of its kind: the tables know CPUs and GPUs."""


def main() -> None:
    """Answer once."""
    from sagemaker.core import image_uris  # type: ignore[import-not-found] # noqa: PLC0415

    def uris(wanted: dict[str, Any]) -> dict[str, str]:
        return {
            region: image_uris.retrieve(
                framework=wanted["framework"],
                region=region,
                version=wanted["version"],
                py_version=wanted["python"],
                instance_type=INSTANCE_TYPES[wanted["target"]],
                image_scope="training",
            )
            for region in wanted["regions"]
        }

    answers: list[dict[str, Any]] = []
    for wanted in json.load(sys.stdin):
        try:
            answers.append({"uris": uris(wanted)})
        except FileNotFoundError:
            answers.append({"problem": f"there is no framework {wanted['framework']}"})
        except (ValueError, LookupError, TypeError, AttributeError) as error:  # what it says of what it does not know
            answers.append({"problem": str(error).rstrip(".")})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
