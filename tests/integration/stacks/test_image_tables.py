"""AWS's own images by alias: resolved by the SDK at synthesis, and passed to all processes."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from aws_cdk import App

from stacks.image_tables import PYTHON, ask, framework_images
from stacks.region_stack import RegionStack
from tests.integration.stacks.templates import REGIONS, a_grid, an_app, environment, only, resources, statements
from tests.support.packages import needs
from tests.support.python_programs import write_program
from traingrid.algorithms.built_in import built_in
from traingrid.algorithms.xgboost import VERSIONS
from traingrid.errors import UsageError
from traingrid.grid.framework_images import FrameworkImage, from_environment, to_environment
from traingrid.grid.image import BuiltInAlgorithm
from traingrid.grid.model import GridSettings

TENSORFLOW = {"framework": "tensorflow", "version": "2.19", "target": "gpu"}
IMAGE_CLASSIFICATION = {"algorithm": "image-classification", "version": "1"}
CONTAINER = "763104351884.dkr.ecr.{}.amazonaws.com/tensorflow-training:2.19-gpu-py312"


needs_sdk = needs("make setup-images")


def sdk(folder: Path, answers: Any, code: int = 0) -> Path:
    """Return an interpreter that stores its input in `asked.json`, and prints these answers."""
    lines = [
        "import pathlib, os, sys",
        f"pathlib.Path({str(folder / 'asked.json')!r}).write_text(sys.stdin.read())",
        f"pathlib.Path({str(folder / 'keys')!r}).write_text(os.environ.get('AWS_ACCESS_KEY_ID', 'none'))",
        f"print({json.dumps(answers)!r})" if not code else f"sys.exit('it broke') if {code} else None",
    ]
    return write_program(folder / "python", "\n".join(lines) + "\n")


def a_grid_with(image: dict[str, str], regions: int = 2) -> GridSettings:
    return a_grid(regions, images={"resnet": {"repository": "training", "tag": "1"}, "tf": image})


def test_a_grid_without_frameworks_does_not_run_the_sdk(tmp_path: Path) -> None:
    assert framework_images(a_grid(2), python=tmp_path / "nothing") == {}


def test_the_error_for_a_missing_sdk_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"images\.tf: the SageMaker Python SDK.* `make setup-images`"):
        framework_images(a_grid_with(TENSORFLOW), python=tmp_path / "nothing")


def test_the_sdk_runs_once_without_the_users_credentials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    answer = {"uris": {region: CONTAINER.format(region) for region in REGIONS[:2]}}
    found = framework_images(a_grid_with(TENSORFLOW), python=sdk(tmp_path, [answer]))
    assert found["tf"].uri("us-west-2") == CONTAINER.format("us-west-2")
    (asked,) = json.loads((tmp_path / "asked.json").read_text())
    assert asked == {**TENSORFLOW, "algorithm": None, "python": None, "regions": list(REGIONS[:2])}
    assert (tmp_path / "keys").read_text() == "none"


def test_an_error_of_the_sdk_is_reported_with_the_alias(tmp_path: Path) -> None:
    python = sdk(tmp_path, [{"problem": "Unsupported tensorflow version: 9"}])
    with pytest.raises(UsageError, match=r"images\.tf: Unsupported tensorflow version: 9\. Correct it in grid\.yaml"):
        framework_images(a_grid_with({**TENSORFLOW, "version": "9"}), python=python)


def test_a_region_without_the_image_is_refused_with_both_solutions(tmp_path: Path) -> None:
    python = sdk(tmp_path, [{"absent": ["us-west-2"]}])
    refused = (
        r"images\.tf: every Region of the grid needs this image, but AWS provides none in us-west-2\. Remove the Region"
    )
    with pytest.raises(UsageError, match=refused):
        framework_images(a_grid_with(IMAGE_CLASSIFICATION), python=python)


def test_a_failure_of_the_sdk_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"SDK failed: it broke\. Reinstall it"):
        framework_images(a_grid_with(TENSORFLOW), python=sdk(tmp_path, [], code=1))


def scattered(alias: int) -> dict[str, str]:
    """Return the URIs of an image whose registry is a different account in every Region, like built-in algorithms."""
    image = f"some-long-framework-name-training:2.19.{alias}-gpu-py312-cu125-ubuntu22.04"
    return {region: f"{number:012}.dkr.ecr.{region}.amazonaws.com/{image}" for number, region in enumerate(REGIONS)}


def test_twelve_regions_and_six_aliases_fit(tmp_path: Path) -> None:
    """Two of the six aliases have a different registry in every Region."""
    whole = {"uris": {region: CONTAINER.format(region) for region in REGIONS}}
    answers = [*[whole] * 4, *({"uris": scattered(alias)} for alias in range(2))]
    images = {f"tensorflow-{alias}": TENSORFLOW for alias in range(6)}
    grid = a_grid(12, images=images, job={"image": "tensorflow-0", "instance_type": "ml.g5.48xlarge"})
    found = framework_images(grid, python=sdk(tmp_path, answers))
    again = from_environment(to_environment(found))
    assert again == found
    for region in REGIONS:
        assert again["tensorflow-0"].uri(region) == CONTAINER.format(region)
        assert again["tensorflow-5"].uri(region) == scattered(1)[region]


def test_a_too_large_environment_is_refused_with_its_size(tmp_path: Path) -> None:
    images = {f"tensorflow-{alias}": TENSORFLOW for alias in range(12)}
    grid = a_grid(12, images=images, job={"image": "tensorflow-0", "instance_type": "ml.g5.48xlarge"})
    answers = [{"uris": scattered(alias)} for alias in range(12)]
    with pytest.raises(UsageError, match=r"have \d+ bytes, but the limit is 3000\. List fewer"):
        framework_images(grid, python=sdk(tmp_path, answers))


@pytest.mark.parametrize(
    "uris",
    [
        {"us-east-1": CONTAINER.format("us-west-2")},
        {"us-east-1": "docker.io/tensorflow:1"},
        {"us-east-1": CONTAINER.format("us-east-1"), "us-west-2": CONTAINER.format("us-west-2") + "x"},
    ],
)
def test_an_answer_that_is_not_one_image_in_ecr_is_an_error(uris: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not one image in ECR"):
        FrameworkImage.of_uris(uris)


def test_jobs_may_pull_from_exactly_that_repository(tmp_path: Path) -> None:
    app = App(outdir=str(tmp_path))
    image = FrameworkImage(
        image="tensorflow-training:2.19-gpu", registry="1" * 12, other_registries={"us-west-2": "2" * 12}
    )
    RegionStack(app, grid=a_grid(2), region="us-west-2", frameworks=[image, image])
    template = app.synth().stacks[0].template
    (pull,) = [entry for entry in statements(template, "Execution") if "ecr:BatchGetImage" in entry["Action"]]
    assert sorted(pull["Resource"]) == [
        "arn:aws:ecr:us-west-2:222222222222:repository/tensorflow-training",
        "arn:aws:ecr:us-west-2:<AWS::AccountId>:repository/traingrid/training",
    ]


def test_every_process_gets_the_framework_images(layer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = FrameworkImage(image="tensorflow-training:2.19-gpu", registry="1" * 12)
    monkeypatch.setattr("app.framework_images", lambda _: {"tf": image})
    stacks = an_app(a_grid_with(TENSORFLOW), layer, tmp_path).synth().stacks
    found = {stack.stack_name: stack.template for stack in stacks}
    control = found["traingrid-control"]
    processes = [only(control, "AWS::Batch::JobDefinition")]
    processes += [function["Properties"] for function in resources(control, "AWS::Lambda::Function").values()]
    assert [from_environment(environment(each)["TRAINGRID_FRAMEWORKS"]) for each in processes] == [{"tf": image}] * 6
    pulled = [entry for entry in statements(found["traingrid-us-west-2"]) if "ecr:BatchGetImage" in entry["Action"]]
    assert "arn:aws:ecr:us-west-2:111111111111:repository/tensorflow-training" in pulled[0]["Resource"]


@needs_sdk
def test_the_real_sdk_returns_the_images() -> None:
    regions = ("us-east-1", "eu-west-1", "af-south-1")
    images = {
        "tf": TENSORFLOW,
        "torch": {"framework": "pytorch", "version": "2.4", "target": "cpu"},
        "classes": IMAGE_CLASSIFICATION,
        "trees": {"algorithm": "xgboost", "version": "1.7-1"},
    }
    job = {"image": "tf", "instance_type": "ml.m5.large"}
    found = framework_images(a_grid(dict.fromkeys(regions), images=images, job=job))
    assert found["tf"].uri("us-east-1") == CONTAINER.format("us-east-1")
    assert (
        found["tf"].uri("af-south-1").startswith("626614931356.dkr.ecr.af-south-1.amazonaws.com/tensorflow-training:")
    )
    assert found["torch"].image == "pytorch-training:2.4-cpu-py311"
    assert [found["classes"].uri(region) for region in regions] == [
        "811284229777.dkr.ecr.us-east-1.amazonaws.com/image-classification:1",
        "685385470294.dkr.ecr.eu-west-1.amazonaws.com/image-classification:1",
        "455444449433.dkr.ecr.af-south-1.amazonaws.com/image-classification:1",
    ]
    assert found["trees"].image == "sagemaker-xgboost:1.7-1"


@needs_sdk
def test_errors_of_the_real_sdk_are_recognized() -> None:
    """For the third, the SDK would return the only version; for the last, an image without training."""
    none = dict.fromkeys(("framework", "algorithm", "target", "python"))
    wrong: list[dict[str, object]] = [
        {**TENSORFLOW, "version": "9.9"},
        {**TENSORFLOW, "framework": "tensorflo"},
        {**IMAGE_CLASSIFICATION, "version": "2"},
        {"algorithm": "lda", "version": "1"},
        {"framework": "clarify", "version": "1.0", "target": "cpu"},
    ]
    regions = ["us-east-1", "af-south-1", "il-central-1"]
    answers = ask(PYTHON, [{**none, **image, "regions": regions} for image in wrong])
    assert answers[0]["problem"].startswith("Unsupported tensorflow version: 9.9. Supported tensorflow version(s): 1.4")
    assert answers[1:] == [
        {"problem": "framework tensorflo does not exist"},
        {"problem": "image-classification has no version 2; available: 1"},
        {"absent": ["af-south-1", "il-central-1"]},
        {"problem": "clarify is not an image for training"},
    ]


@needs_sdk
def test_the_algorithms_of_grid_yaml_are_those_that_the_sdk_knows() -> None:
    """All of the SDK's tables of training images without processors and Python versions are built-in algorithms."""
    (folder,) = PYTHON.parents[1].glob("lib/python*/site-packages/sagemaker/core/image_uri_config")
    tables = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    plain = {
        name
        for name, table in tables.items()
        if "training" in table.get("scope", ()) and not {"py_versions", "processors"} & _keys(table)
    }
    assert {*get_args(BuiltInAlgorithm)} == plain | {"xgboost"}


def _keys(table: Any) -> set[str]:
    below = (_keys(value) for value in table.values()) if isinstance(table, dict) else ()
    return set(table if isinstance(table, dict) else ()).union(*below)


@needs_sdk
def test_the_registries_of_known_algorithms_are_those_of_the_sdk() -> None:
    """traingrid/algorithms/built_in.toml repeats them, so that a manifest can be planned without the SDK."""
    (tables,) = PYTHON.parent.parent.glob("lib/python*/site-packages/sagemaker/core/image_uri_config")
    for name, versions in (("image-classification", ["1"]), ("object-detection", ["1"]), ("xgboost", VERSIONS)):
        table = json.loads((tables / f"{name}.json").read_text())
        for version in versions:
            found, known = table.get("training", table)["versions"][version], built_in(name, version)
            assert known
            assert known.repository == found["repository"]
            assert not {"processors", "py_versions"} & found.keys()  # otherwise they were part of the tag
            assert known.registries == {
                region: account
                for region, account in found["registries"].items()
                if not region.startswith(("cn-", "us-iso"))
            }
