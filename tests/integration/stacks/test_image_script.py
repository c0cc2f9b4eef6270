"""The build scripts, run in a shell with programs that only record their calls."""

import json
import subprocess
from pathlib import Path

import pytest

from stacks import replication_wait
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
    """Fake aws, docker, unzip, date and sleep that record their calls. A file represents an image in a Region.

    `date` is a clock that only `sleep` advances.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    calls = tmp_path / "calls"
    look = f'[ "$2" != describe-images ] || [ -e "{tmp_path}/$4" ] || exit 254\ncat "{tmp_path}/pushed" 2>&- || true'
    arrive = f'[ ! -e "{tmp_path}/late" ] || touch "{tmp_path}/$(cat "{tmp_path}/late")"'
    tick = f'echo $(($(cat "{tmp_path}/now") + $1)) >"{tmp_path}/now"'
    clock = f'case "$1" in -d) echo "$2" ;; *) cat "{tmp_path}/now" ;; esac'
    (tmp_path / "now").write_text("10000")
    fails = f'[ ! -e "{tmp_path}/broken-$1" ] || exit 1'
    for name, more in (
        ("aws", look),
        ("docker", fails),
        ("unzip", ":"),
        ("sleep", f"{arrive}\n{tick}"),
        ("date", clock),
    ):
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>"{calls}"\n{more}\n')
        (folder / name).chmod(0o755)
    return folder


def run(programs: Path, script: Path = SCRIPT, **variables: str) -> tuple[int, list[str]]:
    """Run a script. Return its exit code and the calls, without those to clocks and without temporary paths."""
    environment = {**VARIABLES, **variables, "PATH": f"{programs}:/usr/bin:/bin", "TMPDIR": str(programs.parent)}
    ended = subprocess.run(["bash", str(script)], env=environment, capture_output=True, check=False, timeout=120)
    (programs.parent / "output").write_bytes(ended.stdout)
    calls = (programs.parent / "calls").read_text().splitlines()
    calls = [call for call in calls if not call.startswith("date")]
    return ended.returncode, [call.replace("s3://assets", "BUCKET").replace(_temporary(calls), "F") for call in calls]


def _temporary(calls: list[str]) -> str:
    words = [word for call in calls for word in call.split() if word.endswith("/source.zip") and "s3://" not in word]
    return words[0].removesuffix("/source.zip") if words else "nothing"


def test_a_missing_image_is_built_and_pushed(programs: Path) -> None:
    code, calls = run(programs, TARGET="gpu", ARGUMENTS="EFA=1.43.0")
    source = "--file F/source/training_container/Dockerfile --target gpu --tag registry/grid/training:built-1 F/source"
    options = "--platform linux/amd64 --provenance=false --output type=docker --build-arg EFA=1.43.0"
    assert code == 0
    assert calls == [
        LOOK.format("us-east-1"),
        "aws s3 cp --only-show-errors BUCKET/source.zip F/source.zip",
        "unzip -q F/source.zip -d F/source",
        "aws ecr get-login-password --region us-east-1",
        "docker login --username AWS --password-stdin registry",
        f"docker buildx build {options} {source}",
        "docker push registry/grid/training:built-1",
    ]


def test_an_existing_image_is_not_built_again(programs: Path) -> None:
    (programs.parent / "us-east-1").touch()
    assert run(programs) == (0, [LOOK.format("us-east-1")])


@pytest.mark.parametrize("broken", ["login", "buildx", "push"])
def test_a_failed_step_fails_the_build(programs: Path, broken: str) -> None:
    (programs.parent / f"broken-{broken}").touch()
    code, calls = run(programs)
    assert code != 0
    assert calls[-1].startswith(f"docker {broken}")


def wait(programs: Path, regions: str, *, pushed: int) -> tuple[int, list[str]]:
    """Run the script that waits for an image at the time 10000; the image was pushed at the time `pushed`."""
    (programs.parent / "us-east-1").touch()
    (programs.parent / "pushed").write_text(str(pushed))
    code, calls = run(programs, replication_wait.SCRIPT, REGIONS=regions)
    when = " --query imageDetails[0].imagePushedAt --output text"
    assert calls[0] == LOOK.format("us-east-1") + when
    return code, calls[1:]


def test_the_wait_checks_every_region(programs: Path) -> None:
    (programs.parent / "late").write_text("eu-west-1")
    (programs.parent / "us-west-2").touch()
    code, calls = wait(programs, "eu-west-1 us-west-2", pushed=9999)
    there = LOOK.format("eu-west-1")
    assert (code, calls) == (0, [there, "sleep 5", there, LOOK.format("us-west-2")])


def test_the_wait_checks_the_registry_of_another_account(programs: Path) -> None:
    (programs.parent / "eu-west-1").touch()
    there = LOOK.format("eu-west-1").replace("--repo", "--registry-id 210987654321 --repo")
    assert wait(programs, "eu-west-1/210987654321", pushed=9999) == (0, [there])


@pytest.mark.parametrize(("pushed", "looks"), [(9940, 564), (0, 180)])
def test_the_wait_fails_before_codebuilds_timeout(programs: Path, pushed: int, looks: int) -> None:
    """The script waits 48 minutes after a push, and at least a quarter of an hour."""
    code, calls = wait(programs, "eu-west-1", pushed=pushed)
    assert (code, calls.count("sleep 5"), calls[-1]) == (1, looks, LOOK.format("eu-west-1"))
    assert looks * 5 < 50 * 60
    message = (programs.parent / "output").read_text().splitlines()[-1]
    assert "was not replicated to eu-west-1" in message
    assert message.endswith(
        "aws ecr batch-delete-image --region us-east-1 --repository-name grid/training --image-ids imageTag=built-1"
    )


def test_the_end_of_a_build_is_sent_as_an_event(programs: Path) -> None:
    script = SCRIPT.with_name("build_ending.sh")
    code, (call,) = run(programs, script, CODEBUILD_BUILD_ID="builds:0123", EVENT_SOURCE="traingrid.builds")
    assert code == 0
    (entry,) = json.loads(call.removeprefix("aws events put-events --entries "))
    assert (entry["Source"], entry["DetailType"]) == ("traingrid.builds", "Build Ending")
    assert json.loads(entry["Detail"]) == {
        "build-status": "ENDING", "project-name": "builds", "build-id": "builds:0123",
    }  # fmt: skip
