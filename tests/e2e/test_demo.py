"""Demos: the manifest of `make demo`, and demos that a user interrupts or watches from another terminal."""

import json
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

import examples.digits.demo
import examples.launchers.demo
import examples.torch_ddp.demo
import examples.torch_recipe.demo
from examples import __main__ as program
from tests.support.sample_deployment import sample_deployment
from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import INTERRUPTED as INTERRUPTED_EXIT
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = "Interrupted. The demo's local AWS and its training jobs are stopped.\n"


def listening() -> set[int]:
    """Return the ports on which this process listens. A connection would prove little: others reuse a free port."""
    ours = set()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since
            ours.add(str(path.readlink()))
    rows = [row.split() for row in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].partition(":")[2], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in ours}


@pytest.mark.parametrize("name", program.DEMOS)
def test_an_interrupted_demo_stops_its_local_aws_and_prints_one_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ports: list[int] = []

    def interrupted(endpoint: str, *_: object) -> None:
        ports.append(int(urlsplit(endpoint).port or 0))
        assert ports[0] in listening()
        raise KeyboardInterrupt

    demo = import_module(f"examples.{name}.demo")
    monkeypatch.setattr(demo, "WORK", tmp_path)
    monkeypatch.setattr(demo, "deploy", interrupted)
    monkeypatch.setattr("os.environ", {})
    assert program.run(name, []) == 130
    assert capsys.readouterr().err == INTERRUPTED
    assert ports[0] not in listening()


def test_a_demo_that_is_interrupted_while_its_modules_load_prints_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "import_module", interrupted)
    assert program.run("digits", []) == 130
    assert capsys.readouterr().err == INTERRUPTED


def test_the_program_of_the_demos_imports_nothing_of_traingrid_before_it_catches_the_interrupt() -> None:
    text = "import sys, examples.__main__; print([name for name in sys.modules if name.startswith('traingrid')])"
    found = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout == "[]\n"
    assert program._INTERRUPTED == INTERRUPTED_EXIT


def test_another_terminal_reaches_the_run_by_the_printed_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = examples.digits.demo
    monkeypatch.setattr(demo, "user_environment", lambda url: {"AWS_ENDPOINT_URL": url, "AWS_SECRET_ACCESS_KEY": "a'b"})
    work = tmp_path / "it's a folder"
    work.mkdir()
    text = demo.another_terminal("http://127.0.0.1:1234", demo.GRID_FILE, work)
    setting = text.splitlines()[1].strip()
    program = f"{setting} && env && traingrid --version"
    shell = subprocess.run(
        ["sh", "-c", program], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert "AWS_ENDPOINT_URL=http://127.0.0.1:1234" in shell.stdout.splitlines()
    assert "AWS_SECRET_ACCESS_KEY=a'b" in shell.stdout.splitlines()
    assert "traingrid, version" in shell.stdout
    assert (work / "environment.sh").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        ("sagemaker", [("sagemaker", 1, 2)] * 4),
        ("mixed", [("sagemaker", 1, 2)] * 2 + [("eks", 1, 2), ("eks", 2, 1)]),
    ],
)
def test_the_manifest_of_the_demo_is_accepted(
    engine: str, expected: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = examples.digits.demo
    monkeypatch.setattr(demo, "DATA", tmp_path)

    def uploaded(deployment: Deployment, folder: Path, region: str) -> S3Uri:
        return S3Uri(names.data_bucket("traingrid", deployment.account, region), folder.name)

    monkeypatch.setattr(demo, "upload_folder", uploaded)
    for number in range(len(expected)):
        (tmp_path / f"campaign-{number}").mkdir()
    deployment = replace(sample_deployment(), grid=load_grid(demo.GRID_FILES[engine]))
    plane: Any = SimpleNamespace(deployment=deployment)
    manifest = demo.upload_campaigns(plane, {})
    jobs = jobs_of_lines(parse(manifest.encode(), deployment), deployment, "0123abcd")
    assert [(job.backends[0], job.instance_count, job.processes_per_host) for job in jobs] == expected


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [("sagemaker", {"mpi": "", "none": ""}), ("eks", {"mpi": "", "none": "", "mpijob": "mpijob"})],
)
def test_the_lines_of_the_launchers_are_accepted(engine: str, kinds: dict[str, str]) -> None:
    demo = examples.launchers.demo
    deployment = replace(sample_deployment(), grid=load_grid(demo.ENGINES[engine]))
    bucket = names.data_bucket("traingrid", deployment.account, demo.REGION)
    lines = demo.lines(f"s3://{bucket}/campaign-1", on_eks=engine == "eks")
    uploaded = [json.dumps(line | {"source": f"s3://{bucket}/sources/code.tar.gz"}) for line in lines]
    jobs = jobs_of_lines(parse("\n".join(uploaded).encode(), deployment), deployment, "0123abcd")
    assert {job.name: job.eks_kind for job in jobs} == kinds
    assert {(job.backends[0], job.instance_count) for job in jobs} == {(engine, 2)}


@pytest.mark.parametrize(("engine", "kinds"), [("sagemaker", ["", ""]), ("eks", ["mpijob", "job"])])
def test_the_manifest_of_the_torch_demo_is_accepted(
    engine: str, kinds: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = examples.torch_ddp.demo
    deployment = replace(sample_deployment(), grid=load_grid(demo.ENGINES[engine]))
    bucket = names.data_bucket("traingrid", deployment.account, demo.REGION)
    monkeypatch.setattr(demo, "upload_folder", lambda *_: f"s3://{bucket}/digits")
    plane: Any = SimpleNamespace(deployment=deployment)
    manifest = demo.write_manifest(plane, tmp_path, on_eks=engine == "eks").read_text()
    folder = json.dumps(str(demo.HERE / "source"))
    uploaded = manifest.replace(folder, json.dumps(f"s3://{bucket}/sources/code.tar.gz"))
    jobs = jobs_of_lines(parse(uploaded.encode(), deployment), deployment, "0123abcd")
    assert [(job.backends[0], job.eks_kind, job.launcher) for job in jobs] == [
        (engine, kind, "torchrun") for kind in kinds
    ]


def test_the_lines_of_the_torch_recipe_need_no_script() -> None:
    demo = examples.torch_recipe.demo
    deployment = replace(sample_deployment(), grid=load_grid(demo.GRID_FILE))
    buckets = {region: names.data_bucket("recipe", deployment.account, region) for region in demo.REGIONS}
    lines = [json.dumps(demo.line_of(region, f"s3://{bucket}/digits")) for region, bucket in buckets.items()]
    jobs = jobs_of_lines(parse("\n".join(lines).encode(), deployment), deployment, "0123abcd")
    assert {(job.launcher, job.source, job.instance_count) for job in jobs} == {("torchrun", "", 2)}
    assert sorted(job.region for job in jobs) == sorted(demo.REGIONS)
