"""The whole app, with different numbers of Regions."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from aws_cdk import App

from app import MissingLayerError, build_app
from tests.integration.stacks.templates import (
    REGIONS,
    ROOT,
    Template,
    a_grid,
    assembly,
    resources,
    statements,
    synthesise,
)

Templates = Callable[[int], dict[str, Template]]


@pytest.mark.parametrize("regions", [1, 4, 12])
def test_an_app_has_the_home_stacks_and_stacks_for_each_region(templates: Templates, regions: int) -> None:
    expected = {
        "traingrid-images",
        "traingrid-builds",
        "traingrid-control",
        "traingrid-guard",
        *(f"traingrid-{region}" for region in REGIONS[:regions]),
    }
    expected |= {f"traingrid-registry-{region}" for region in REGIONS[1:regions]}  # the first one is the home Region
    assert set(templates(regions)) == expected


@pytest.mark.parametrize("regions", [1, 4, 12])
def test_role_names_of_a_region_contain_the_region(templates: Templates, regions: int) -> None:
    named = sorted(
        (stack, role["Properties"]["RoleName"])
        for stack, template in templates(regions).items()
        for role in resources(template, "AWS::IAM::Role").values()
        if "RoleName" in role["Properties"]
    )
    home = [
        ("traingrid-control", f"traingrid-{part}") for part in ("child", "guard", "reconciler", "recorder", "registrar")
    ]
    of_regions = [
        (f"traingrid-{region}", f"traingrid-{part}-{region}")
        for region in REGIONS[:regions]
        for part in ("execution", "events")
    ]
    assert named == sorted([*home, *of_regions])


def test_another_region_adds_its_stacks_one_passed_role_and_one_replica(templates: Templates, layer: Path) -> None:
    before, after = templates(4), synthesise(a_grid(5), layer)
    new = REGIONS[4]
    assert set(after) - set(before) == {f"traingrid-{new}", f"traingrid-registry-{new}"}
    assert {stack for stack in before if before[stack] != after[stack]} == {"traingrid-control", "traingrid-images"}
    assert set(after["traingrid-images"]["Resources"]) == set(before["traingrid-images"]["Resources"])
    passed_before, passed_after = _passed(before["traingrid-control"]), _passed(after["traingrid-control"])
    assert passed_after - passed_before == {f"arn:aws:iam::<AWS::AccountId>:role/traingrid-execution-{new}"}
    added = set(after["traingrid-control"]["Resources"]) ^ set(before["traingrid-control"]["Resources"])
    # The CDK moves what exceeds the size of a role's inline policy, 10,240 characters, into a managed policy.
    assert {name for name in added if not name.startswith("OrchestratorRoleOverflowPolicy")} == set()


def _passed(control: Template) -> set[str]:
    return {
        role
        for statement in statements(control)
        if "iam:PassRole" in statement["Action"]
        for role in statement["Resource"]
    }


def test_a_home_region_without_training_has_only_the_home_stacks(layer: Path) -> None:
    grid = a_grid({"eu-west-1": None}, home="us-east-2")
    placed = {stack.stack_name: stack.environment.region for stack in assembly(grid, layer).stacks}
    home = dict.fromkeys(("traingrid-images", "traingrid-builds", "traingrid-control", "traingrid-guard"), "us-east-2")
    there = dict.fromkeys(("traingrid-eu-west-1", "traingrid-registry-eu-west-1"), "eu-west-1")
    assert placed == {**home, **there}


def test_with_a_known_account_bucket_names_are_literal(layer: Path, tmp_path: Path) -> None:
    app = App(context={"account": "123456789012"}, outdir=str(tmp_path))
    stacks = build_app(a_grid(2), layer=layer, app=app).synth().stacks
    named = {
        bucket["Properties"]["BucketName"]
        for stack in stacks
        for bucket in resources(stack.template, "AWS::S3::Bucket").values()
    }
    regional = {f"traingrid-{what}-123456789012-{region}" for what in ("data", "output") for region in REGIONS[:2]}
    assert named == {"traingrid-manifests-123456789012-us-east-1", *regional}


def test_a_bucket_in_another_account_has_that_accounts_name(layer: Path, tmp_path: Path) -> None:
    grid = a_grid({"us-east-1": {}, "us-west-2": {"account": "210987654321"}}, account="123456789012")
    app = App(context={"account": "123456789012"}, outdir=str(tmp_path))
    stack = build_app(grid, layer=layer, app=app).synth().get_stack_by_name("traingrid-us-west-2")
    named = {bucket["Properties"]["BucketName"] for bucket in resources(stack.template, "AWS::S3::Bucket").values()}
    assert named == {f"traingrid-{what}-210987654321-us-west-2" for what in ("data", "output")}


def test_the_functions_code_is_lambda_and_traingrid_without_its_cli(layer: Path) -> None:
    folder = Path(assembly(a_grid(1), layer).directory)
    images = ("batch_job", "training_container")
    code = [asset for asset in folder.glob("asset.*") if not any((asset / image).exists() for image in images)]
    packed = {path.relative_to(asset) for asset in code for path in asset.rglob("*")}
    assert Path("traingrid/grid/model.py") in packed
    assert Path("python/library.py") in packed
    assert {path.parts[0] for path in packed} == {"lambda", "traingrid", "python"}
    assert not {path for path in packed if "__pycache__" in path.parts or path.parts[:2] == ("traingrid", "cli")}


def test_synthesis_does_not_import_boto3() -> None:
    """Importing boto3 would slow down every synthesis, which looks nothing up."""
    script = "import sys, app; app.load_grid('grid.yaml'); sys.exit('boto3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


def test_the_error_for_a_missing_layer_names_make_setup(tmp_path: Path) -> None:
    with pytest.raises(MissingLayerError, match="Run `make setup`"):
        build_app(a_grid(1), layer=tmp_path / "nothing")


def refused(grid: Path | None, folder: Path) -> str:
    """Run the app as the CDK CLI does, with a grid that it must refuse. Return its error messages.

    Args:
        grid: The grid of the context; None for a context without one.
    """
    environment = {
        **os.environ,
        "CDK_CONTEXT_JSON": json.dumps({"grid": str(grid)} if grid else {}),
        "CDK_OUTDIR": str(folder / "out"),
    }
    ended = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert not list((folder / "out").glob("*.template.json"))
    return ended.stderr


def test_an_invalid_grid_exits_with_2_and_writes_no_template(tmp_path: Path) -> None:
    bad = tmp_path / "grid.yaml"
    bad.write_text((ROOT / "grid.yaml").read_text().replace("  us-west-2:", "  us-wets-2:").replace("home:", "hom:"))
    output = refused(bad, tmp_path)
    assert "Did you mean us-west-2?" in output
    assert "Did you mean home?" in output


def test_the_environment_names_the_grid_unless_the_context_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINGRID_GRID_FILE", str(tmp_path / "absent.yaml"))
    assert f"{tmp_path}/other.yaml: No such file" in refused(tmp_path / "other.yaml", tmp_path)
    assert f"{tmp_path}/absent.yaml: No such file" in refused(None, tmp_path)


def test_an_unknown_aws_image_is_reported_with_the_file(tmp_path: Path) -> None:
    bad = tmp_path / "mine.yaml"
    image = "images:\n  tf: {framework: tensorflow, version: '9.9', target: gpu}  #"
    bad.write_text((ROOT / "grid.yaml").read_text().replace("images:", image, 1))
    assert f"{bad}: images.tf: " in refused(bad, tmp_path)


def test_the_synthesis_warns_of_a_residency_that_does_not_bind_code(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(
        (ROOT / "grid.yaml").read_text().replace("  eu-central-1:\n", "  eu-central-1: {residency: [eu]}\n")
    )
    environment = {
        **os.environ,
        "CDK_CONTEXT_JSON": json.dumps({"grid": str(path)}),
        "CDK_OUTDIR": str(tmp_path / "out"),
    }
    ended = subprocess.run(
        [sys.executable, "app.py"], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert f"{path}: warning: regions.eu-central-1.residency: " in ended.stderr
