"""`traingrid rehearse` as a user runs it: the first rehearsal and the interrupted ones run the real CDK CLI."""

import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from localcloud.faults.plan import CallFault, EventFault, FaultPlan, Stub
from tests.support import deployment
from tests.support.packages import needs
from traingrid.cli.main import cli
from traingrid.errors import TraingridError
from verification import deployed_grid
from verification.rehearsal import rehearsal

ACCOUNT = "111122223333"
GRID = """\
name: grid
home: us-east-1
regions:
  us-east-1:
  eu-west-1: {data_buckets: [campaigns-dub]}
images:
  resnet: {build: training, target: gpu}
  aws: {uri: "763104351884.dkr.ecr.{region}.amazonaws.com/tensorflow-training:2.14-gpu"}
job: {image: resnet, instance_type: ml.p3.16xlarge, processes_per_host: 8, volume_gb: 200, max_runtime: 24h}
algorithms: [my-algorithm]
"""
HOME = f"s3://grid-data-{ACCOUNT}-us-east-1"
MANIFEST = f"""\
region,s3_uri,name,image,algorithm,instance_count,input.train,replica.eu-west-1,input_mode,streams,source,entry_point
us-east-1,{HOME}/2026-10,moves,,,2,,s3://campaigns-dub/2026-10,,,,
us-east-1,{HOME}/2026-11,own script,,,,,,,,code,train.py
eu-west-1,s3://campaigns-dub/2026-11,own bucket,,,,,,,,,
eu-west-1,s3://campaigns-dub/2026-12,image of AWS,aws,,,,,Pipe,,,
us-east-1,,algorithm,,my-algorithm,,{HOME}/2026-12/train/,,,,,
us-east-1,{HOME}/2026-13,last,,,,,s3://campaigns-dub/2026-13,Pipe,rank,,
"""


@pytest.fixture
def without_cli(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy without the CDK CLI, which takes most of the time."""
    monkeypatch.setattr(deployed_grid, "deploy", deployment.deploy)


def lay_out(folder: Path, manifest: str, grid: str = GRID) -> None:
    (folder / "grid.yaml").write_text(grid)
    (folder / "manifest.csv").write_text(manifest)
    (folder / "code").mkdir()
    (folder / "code" / "train.py").write_text("print('trained')\n")


def rehearse(folder: Path, manifest: str, *options: str) -> Result:
    lay_out(folder, manifest)
    arguments = ["--grid", str(folder / "grid.yaml"), "rehearse", str(folder / "manifest.csv"), *options]
    return CliRunner().invoke(cli, arguments)


def times(output: str, what: str) -> int:
    found = re.search(rf"^{re.escape(what)} +(\d+)", output, re.MULTILINE)
    return int(found[1]) if found else 0


def test_all_lines_of_a_users_manifest_complete_despite_faults(tmp_path: Path) -> None:
    before = dict(os.environ)
    result = rehearse(tmp_path, MANIFEST, "--seed", "2")
    assert result.exit_code == 0, result.output
    assert f"manifest.csv: 6 jobs, account {ACCOUNT}" in result.output
    assert result.output.splitlines()[-1] == "duplicates 0, orphans 0, lost 0, violations 0, seed 2"
    struck = {
        what: times(result.output, what)
        for what in (
            "child: killed after a call",
            "child: reply lost",
            "child: throttled",
            "function: reply lost",
            "person: reply lost",
            "event lost",
            "event repeated",
            "event late",
            "no capacity for a training job",
            "quota used up",
        )
    }
    assert all(struck.values()), f"{struck}\n{result.output}"
    ends = re.findall(r"^(Completed|Failed|Stopped) +\d+ +(\d+)$", result.output, re.MULTILINE)
    assert sum(int(lines) for _, lines in ends) == 6
    assert {state for state, _ in ends} == {"Completed"}, result.output
    assert dict(os.environ) == before
    assert "uploaded source" in result.output  # to the localcloud: this process has no other credentials


@needs("make setup-images")
@pytest.mark.usefixtures("without_cli")
def test_aws_images_exist_where_the_deployment_found_them(tmp_path: Path) -> None:
    """The image's full tag and the owner's account are known only after the deployment."""
    aliases = """\
  tf: {framework: tensorflow, version: "2.19", target: gpu}
  masks: {algorithm: semantic-segmentation, version: "1"}
"""
    lines = "".join(f"us-east-1,{HOME}/2026-10,{image}\n" for image in ("tf", "masks"))
    lay_out(tmp_path, f"region,s3_uri,image\n{lines}", GRID.replace("job:", f"{aliases}job:"))
    result = CliRunner().invoke(
        cli, ["--grid", str(tmp_path / "grid.yaml"), "rehearse", str(tmp_path / "manifest.csv")]
    )
    assert result.exit_code == 0, result.output
    assert re.findall(r"^(Completed|Failed|Stopped) +\d+ +(\d+)$", result.output, re.MULTILINE) == [("Completed", "2")]


@pytest.mark.usefixtures("without_cli")
def test_an_invalid_manifest_is_rejected_as_by_submit(tmp_path: Path) -> None:
    result = rehearse(tmp_path, MANIFEST + "mars,s3://nobody/x,,,,,,,,,,\n" + "eu-west-1,s3://nobody/x,,,,many,,,,,,\n")
    assert isinstance(result.exception, TraingridError)
    assert result.exception.exit_code == 2
    lines = result.exception.what.splitlines()
    path = tmp_path / "manifest.csv"
    assert lines[0] == f"{path} is rejected and nothing was submitted."
    assert [line.removeprefix(f"{path}:").split(" ")[:2] for line in lines[1:]] == [
        ["8:", "region"],
        ["9:", "s3_uri"],
        ["9:", "instance_count"],
    ]
    assert "uploaded" not in result.output


@pytest.mark.usefixtures("without_cli")
def test_a_rehearsal_with_violations_exits_with_1_and_keeps_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the attach safeguard, a retried child fails the line whose training job it has created before."""
    without_attach = partial(
        deployed_grid.deployed, first="tests.integration.verification.rehearsal.without_attaching:without_attaching"
    )
    monkeypatch.setattr(rehearsal, "deployed", without_attach)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    killed = CallFault(effect="kill_after", action="CreateTrainingJob", caller="batch/*/1")
    unheard = EventFault(source="aws.sagemaker", drop=1.0)
    plan = FaultPlan(calls=(killed,), events=(unheard,), stubs=(Stub(seconds=1.0),))
    monkeypatch.setattr(rehearsal, "plan_of", lambda *_: plan)
    result = rehearse(tmp_path, MANIFEST)
    assert isinstance(result.exception, TraingridError), result.output
    assert result.exception.exit_code == 1
    assert re.search(
        r"^I4 other: grid-[0-9a-f]{8}-\d+-1 in \S+ ended as Completed, but the ledger has Failed$", result.output, re.M
    )
    counted = re.search(r"violations (\d+), seed 1$", result.output.rstrip())
    assert counted
    assert int(counted[1]) > 0
    (record,) = tmp_path.glob("rehearsal-record-*.jsonl")
    assert str(record) in str(result.exception.next_step)
    assert "CreateTrainingJob" in record.read_text()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["code"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_rehearsal_leaves_no_process_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    lay_out(tmp_path, MANIFEST)
    files = tmp_path / "tmp"
    files.mkdir()
    command = [str(Path(sys.executable).with_name("traingrid")), "--grid", "grid.yaml", "rehearse", "manifest.csv"]
    environment = {**os.environ, "TMPDIR": str(files)}
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 240  # for a busy machine
    while not list(files.glob("rehearsal-*/cdk-synth.log")):
        assert running.poll() is None, running.communicate()[1]
        assert time.monotonic() < deadline, "the CDK CLI is not started"
        time.sleep(0.05)
    time.sleep(0.5)
    running.send_signal(number)
    try:
        errors = running.communicate(timeout=120)[1]
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130
    assert errors.startswith("Error: Interrupted. The rehearsal's processes have ended")
    assert list(files.iterdir()) == []
    assert not [process for process in Path("/proc").glob("[0-9]*") if str(files) in _environment(process)]


def _environment(process: Path) -> str:
    try:
        return (process / "environ").read_text(errors="replace") + (process / "cmdline").read_text(errors="replace")
    except OSError:
        return ""
