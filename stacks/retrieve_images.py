"""Image retrieval: looks up AWS's images in the SageMaker Python SDK. `stacks.image_tables` runs it in .venv-images.

The SDK has its own environment, because it requires 50 packages, some in older versions than the CDK app requires.

Input: a JSON list of {"framework" or "algorithm", "version", "target", "python", "regions"}. Output: a JSON list with,
for each entry, {"uris": URIs by Region}, {"absent": Regions without the image}, or {"problem": the reason for having
none}.
"""

import json
import re
import sys
from typing import Any

INSTANCE_TYPES = {"cpu": "ml.c5.xlarge", "gpu": "ml.g5.xlarge"}
"""One instance type of each kind; the SDK only distinguishes CPUs and GPUs."""

_UPGRADE = re.compile(r" You may need to upgrade your SDK version \(pip install -U sagemaker\) for newer [^.]*\.")
"""The SDK's advice to its user, which is removed: the checkout decides which version is installed here."""


def main() -> None:
    """Read all questions from standard input, and write the answers to standard output."""
    from sagemaker.core import image_uris  # noqa: PLC0415 - only .venv-images has it

    def answer(wanted: dict[str, Any]) -> dict[str, Any]:
        name, uris, absent = wanted["framework"] or wanted["algorithm"], {}, []
        table = image_uris.config_for_framework(name)
        if "training" not in table and "training" not in table.get("scope", []):
            return {"problem": f"{name} is not an image for training"}
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
        # For an algorithm with a single version, the SDK returns that version for any requested one.
        others = {uri.rpartition(":")[2] for uri in uris.values()} - {wanted["version"]}
        if wanted["algorithm"] and others:
            return {"problem": f"{name} has no version {wanted['version']}; available: {', '.join(sorted(others))}"}
        return {"absent": absent} if absent else {"uris": uris}

    replies = []
    for wanted in json.load(sys.stdin):
        try:
            replies.append(answer(wanted))
        except FileNotFoundError:
            replies.append({"problem": f"framework {wanted['framework']} does not exist"})
        except (ValueError, LookupError, TypeError, AttributeError) as error:  # the SDK's errors for unknown images
            replies.append({"problem": _UPGRADE.sub("", str(error)).rstrip(".")})
    json.dump(replies, sys.stdout)


if __name__ == "__main__":
    main()
