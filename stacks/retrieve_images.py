"""The SageMaker Python SDK's answer to which image is where; run by `stacks.image_tables` in .venv-images.

The SDK brings 50 packages, of which some must be older than the CDK app's own, so it has an environment of its own.

Input: JSON, a list of {"framework" or "algorithm", "version", "target", "python", "regions"}. Output: JSON, for each of
them {"uris": by Region}, {"absent": the Regions that lack it}, or {"problem": why there is none}.
"""

import json
import re
import sys
from typing import Any

INSTANCE_TYPES = {"cpu": "ml.c5.xlarge", "gpu": "ml.g5.xlarge"}
"""Any of its kind: the tables know CPUs and GPUs."""

_UPGRADE = re.compile(r" You may need to upgrade your SDK version \(pip install -U sagemaker\) for newer [^.]*\.")
"""What the SDK says to whoever has installed it; which one is installed here is the checkout's to say."""


def main() -> None:
    """Answer once."""
    from sagemaker.core import image_uris  # type: ignore[import-not-found] # noqa: PLC0415

    def answer(wanted: dict[str, Any]) -> dict[str, Any]:
        name, uris, absent = wanted["framework"] or wanted["algorithm"], {}, []
        table = image_uris.config_for_framework(name)
        if "training" not in table and "training" not in table.get("scope", []):
            return {"problem": f"{name} is no image for training"}
        for region in wanted["regions"]:
            try:
                uris[region] = image_uris.retrieve(
                    framework=name,
                    region=region,
                    version=wanted["version"],
                    py_version=wanted["python"],
                    instance_type=INSTANCE_TYPES.get(wanted["target"]),
                    image_scope="training",
                )
            except ValueError as error:
                if not str(error).startswith("Unsupported region"):
                    raise
                absent.append(region)
        # Of an algorithm with one version the SDK gives that one, whichever it is asked for.
        others = {uri.rpartition(":")[2] for uri in uris.values()} - {wanted["version"]}
        if wanted["algorithm"] and others:
            return {"problem": f"{name} has no version {wanted['version']}, but {', '.join(sorted(others))}"}
        return {"absent": absent} if absent else {"uris": uris}

    answers = []
    for wanted in json.load(sys.stdin):
        try:
            answers.append(answer(wanted))
        except FileNotFoundError:
            answers.append({"problem": f"there is no framework {wanted['framework']}"})
        except (ValueError, LookupError, TypeError, AttributeError) as error:  # what it says of what it does not know
            answers.append({"problem": _UPGRADE.sub("", str(error)).rstrip(".")})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
