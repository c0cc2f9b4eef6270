"""The script of a build, run in a shell with programs that only say what they were asked."""

import subprocess
from pathlib import Path

import pytest

from stacks.image_build import SCRIPT

VARIABLES = {
    "SOURCE": "s3://assets/source.zip",
    "REGISTRY": "registry",
    "REPOSITORY": "grid/training",
    "TAG": "built-1",
    "DOCKERFILE": "training_container/Dockerfile",
    "AWS_REGION": "us-east-1",
}
LOOK = "aws ecr describe-images --region {} --repository-name grid/training --image-ids imageTag=built-1"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """aws, docker, unzip and sleep: each writes down its call; an image is in a Region once a file says so."""
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = tmp_path / "calls"
    look = f'[ "$2" != describe-images ] || [ -e "{tmp_path}/$4" ] || exit 254'
    arrive = f'[ ! -e "{tmp_path}/late" ] || touch "{tmp_path}/$(cat "{tmp_path}/late")"'
    fails = f'[ ! -e "{tmp_path}/broken-$1" ] || exit 1'
    for name, more in (("aws", look), ("docker", fails), ("unzip", ":"), ("sleep", arrive)):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"{calls}"\n{more}\n')
        (folder / name).chmod(0o755)
    return folder


def run(programs: Path, **variables: str) -> tuple[int, list[str]]:
    """Run the script; return its exit code and the calls, without the names of temporary folders."""
    environment = {**VARIABLES, **variables, "PATH": f"{programs}:/usr/bin:/bin", "TMPDIR": str(programs.parent)}
    ended = subprocess.run(["bash", str(SCRIPT)], env=environment, capture_output=True, check=False, timeout=20)
    (programs.parent / "said").write_bytes(ended.stdout)
    calls = (programs.parent / "calls").read_text().splitlines()
    return ended.returncode, [call.replace("s3://assets", "BUCKET").replace(_temporary(calls), "F") for call in calls]


def _temporary(calls: list[str]) -> str:
    words = [word for call in calls for word in call.split() if word.endswith("/source.zip") and "s3://" not in word]
    return words[0].removesuffix("/source.zip") if words else "nothing"


def test_an_image_that_is_not_there_is_built_pushed_and_awaited(programs: Path) -> None:
    (programs.parent / "late").write_text("eu-west-1")
    code, calls = run(programs, TARGET="gpu", REGIONS="eu-west-1")
    source = "--file F/source/training_container/Dockerfile --target gpu --tag registry/grid/training:built-1 F/source"
    assert code == 0
    assert calls == [
        LOOK.format("us-east-1"),
        "aws s3 cp --only-show-errors BUCKET/source.zip F/source.zip",
        "unzip -q F/source.zip -d F/source",
        "aws ecr get-login-password --region us-east-1",
        "docker login --username AWS --password-stdin registry",
        f"docker buildx build --platform linux/amd64 --provenance=false --output type=docker {source}",
        "docker push registry/grid/training:built-1",
        LOOK.format("eu-west-1"),
        "sleep 5",
        LOOK.format("eu-west-1"),
    ]


def test_an_image_that_is_there_is_neither_built_nor_pushed_again(programs: Path) -> None:
    for region in ("us-east-1", "eu-west-1", "us-west-2"):
        (programs.parent / region).touch()
    code, calls = run(programs, REGIONS="eu-west-1 us-west-2")
    assert (code, calls) == (0, [LOOK.format(region) for region in ("us-east-1", "eu-west-1", "us-west-2")])


def test_an_image_is_awaited_in_the_registry_of_another_account(programs: Path) -> None:
    for region in ("us-east-1", "eu-west-1"):
        (programs.parent / region).touch()
    code, calls = run(programs, REGIONS="eu-west-1/210987654321")
    there = LOOK.format("eu-west-1").replace("--repo", "--registry-id 210987654321 --repo")
    assert (code, calls) == (0, [LOOK.format("us-east-1"), there])


def test_an_image_of_a_former_build_that_does_not_come_is_told_with_the_command_before_the_build_times_out(
    programs: Path,
) -> None:
    (programs.parent / "us-east-1").touch()
    code, calls = run(programs, REGIONS="eu-west-1")
    assert (code, calls.count("sleep 5"), calls[-1]) == (1, 180, LOOK.format("eu-west-1"))
    said = (programs.parent / "said").read_text().splitlines()[-1]
    assert "is not in eu-west-1 and does not come" in said
    assert said.endswith(
        "aws ecr batch-delete-image --region us-east-1 --repository-name grid/training --image-ids imageTag=built-1"
    )


@pytest.mark.parametrize("broken", ["login", "buildx", "push"])
def test_a_step_that_fails_fails_the_build(programs: Path, broken: str) -> None:
    (programs.parent / f"broken-{broken}").touch()
    code, calls = run(programs)
    assert code != 0
    assert calls[-1].startswith(f"docker {broken}")
