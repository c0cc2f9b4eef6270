import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result
from moto.sagemaker.models import sagemaker_backends

from localcloud.credentials.secret import server_secret
from localcloud.faults.plan import FaultPlan, Stub
from localcloud.processes.loopback import is_local
from localcloud.server import lifecycle
from localcloud.server.local_cloud import LocalCloud
from localcloud.server.page_client import ask
from localcloud.server.state_file import Running, holder_of
from localcloud.settings import Settings
from tests.integration.localcloud.compute import ACCOUNT, LIMIT_SECONDS, wait_until
from tests.integration.localcloud.probe import Probe, rule
from tests.integration.localcloud.training_side import SageMaker
from traingrid.cli.main import cli


def client_of(endpoint: str, key: str = "localcloud", secret: str = "") -> Callable[..., Any]:
    session: Any = boto3.Session(aws_access_key_id=key, aws_secret_access_key=secret or server_secret())

    def client(service: str, region: str = "us-east-1") -> Any:
        return session.client(service, region_name=region, endpoint_url=endpoint)

    return client


def test_every_start_begins_with_an_empty_account(tmp_path: Path) -> None:
    for _ in range(2):
        with LocalCloud(Settings(data_dir=tmp_path)) as own:
            s3 = client_of(own.endpoint_url)("s3")
            assert s3.list_buckets()["Buckets"] == []
            assert own.record.entries() == []
            s3.create_bucket(Bucket="the-bucket")


def test_every_server_has_a_separate_secret_readable_only_by_its_user(tmp_path: Path) -> None:
    secrets = set()
    for name in ("a", "b"):
        server = lifecycle.up(tmp_path / name)
        try:
            file = tmp_path / name / "server.json"
            assert file.stat().st_mode & 0o777 == 0o600
            assert json.loads(file.read_text())["secret"] == server.secret
            assert server.secret not in repr(server)
            command = Path(f"/proc/{server.pid}/cmdline").read_text()
            assert server.secret not in command  # every user of the machine can read the command line
            secrets.add(server.secret)
        finally:
            lifecycle.down(tmp_path / name)
        assert not file.exists()
    assert len(secrets) == 2
    assert min(len(secret) for secret in secrets) >= 43


def test_the_folder_is_private_also_if_an_earlier_server_left_it_open(tmp_path: Path) -> None:
    for folder in (tmp_path / "new" / "folder", tmp_path / "earlier"):
        if folder.name == "earlier":
            folder.mkdir(mode=0o755)
            (folder / "server.lock").touch()
        cloud = LocalCloud(Settings(data_dir=folder))
        cloud.start()
        cloud.stop()
        assert folder.stat().st_mode & 0o777 == 0o700


def test_an_open_folder_with_other_files_is_neither_used_nor_changed(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    (tmp_path / "shared" / "notes").touch()
    with pytest.raises(lifecycle.LifecycleError, match=r"other users can access .* use a new folder, or chmod 700"):
        lifecycle.up(tmp_path / "shared")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["notes"]


def test_a_second_server_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with LocalCloud(Settings(data_dir=tmp_path)), pytest.raises(RuntimeError, match="already runs in this process"):
        LocalCloud(Settings(data_dir=tmp_path)).start()


def test_a_port_in_use_raises_an_error_and_leaves_no_lock(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = Settings(data_dir=tmp_path, port=taken.getsockname()[1])
        for _ in range(2):
            with pytest.raises(OSError, match="in use"):
                LocalCloud(settings).start()


def test_stop_runs_every_callback_while_the_server_still_answers(tmp_path: Path) -> None:
    own, seen = LocalCloud(Settings(data_dir=tmp_path)), []
    own.start()
    s3 = client_of(own.endpoint_url)("s3")
    own.on_stop(lambda: seen.append(len(s3.list_buckets()["Buckets"])))
    own.stop()
    assert seen == [0]


def test_stop_ends_everything_even_if_a_callback_fails(tmp_path: Path) -> None:
    own, seen = LocalCloud(Settings(data_dir=tmp_path)), list[str]()

    def fail() -> None:
        message = "a defect of a feature"
        raise RuntimeError(message)

    own.start()
    address = urlsplit(own.endpoint_url)
    own.on_stop(lambda: seen.append("the first"))
    own.on_stop(fail)
    with pytest.raises(RuntimeError, match="a defect of a feature"):
        own.stop()
    assert seen == ["the first"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port))
    with own:  # the port, the folder and the process are free again
        assert client_of(own.endpoint_url)("s3").list_buckets()["Buckets"] == []


def test_the_port_is_closed_after_a_stop_even_if_the_serving_thread_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = socket.socket._real_close  # type: ignore[attr-defined] # where another thread can come between

    def close_slowly(connection: socket.socket) -> None:
        if threading.current_thread().name != "localcloud":
            close(connection)
            return
        descriptor = connection.detach()
        time.sleep(0.5)
        os.close(descriptor)

    monkeypatch.setattr(socket.socket, "_real_close", close_slowly)
    with LocalCloud(Settings(data_dir=tmp_path)) as own:
        address = urlsplit(own.endpoint_url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port))


def test_training_jobs_created_while_the_server_stops_do_not_start(tmp_path: Path) -> None:
    with LocalCloud(Settings(data_dir=tmp_path)) as own:
        own.faults.set(
            FaultPlan(stubs=(Stub(seconds=60, stop_seconds=1),))
        )  # the stop waits a second for the first job
        side = SageMaker(client_of(own.endpoint_url))
        first, request = side.create(), side.request()
        job = sagemaker_backends[ACCOUNT]["us-east-1"].training_jobs[first]
        wait_until(lambda: job.progress.secondary == "Training")

        def create_during_the_stop() -> None:
            job.stop_requested.wait()
            side.api.create_training_job(**request)

        creator = threading.Thread(target=create_during_the_stop)
        creator.start()
    creator.join()
    late = sagemaker_backends[ACCOUNT]["us-east-1"].training_jobs[request["TrainingJobName"]]
    assert late.progress.secondary == "Starting"
    names = {f"training-{first}", f"training-{request['TrainingJobName']}"}
    assert names.isdisjoint(thread.name for thread in threading.enumerate())


def test_the_users_profile_and_keys_are_hidden_while_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("https_proxy", "http://192.0.2.1:3128")
    with LocalCloud(Settings(data_dir=tmp_path)):
        assert {"AWS_PROFILE", "https_proxy"}.isdisjoint(os.environ)
        assert os.environ["AWS_CONFIG_FILE"] == os.devnull
    assert os.environ["AWS_PROFILE"] == "mine"


def test_a_childs_environment_inherits_no_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy")
    with LocalCloud(Settings(data_dir=tmp_path)) as own:
        role = "arn:aws:iam::123456789012:role/some"
        child = own.environment_for("eu-west-1", role, {"EXTRA": "1"})
        assert child["AWS_ENDPOINT_URL"] == own.endpoint_url
        assert child["AWS_REGION"] == child["AWS_DEFAULT_REGION"] == "eu-west-1"
        assert child["AWS_EC2_METADATA_DISABLED"] == "true"
        assert child["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
        assert child["EXTRA"] == "1"
        assert {"SECRET_OF_OURS", "HTTPS_PROXY"}.isdisjoint(child)
        session: Any = boto3.Session(
            child["AWS_ACCESS_KEY_ID"], child["AWS_SECRET_ACCESS_KEY"], child["AWS_SESSION_TOKEN"]
        )
        identity = session.client("sts", region_name="eu-west-1", endpoint_url=own.endpoint_url).get_caller_identity()
        assert identity["Arn"].startswith("arn:aws:sts::123456789012:assumed-role/some/")


@pytest.mark.parametrize("service", ["s3", "sts", "sqs", "lambda", "cloudwatch", "dynamodb", "batch"])
def test_real_aws_keys_are_refused_in_every_protocol(tmp_path: Path, service: str) -> None:
    calls = {
        "s3": "list_buckets", "sts": "get_caller_identity", "sqs": "list_queues", "lambda": "list_functions",
        "cloudwatch": "list_metrics", "dynamodb": "list_tables", "batch": "describe_job_queues",
    }  # fmt: skip
    with LocalCloud(Settings(data_dir=tmp_path)) as own:
        client = client_of(own.endpoint_url, "AKIAABCDEFGHIJKLMNOP")(service)
        with pytest.raises(ClientError, match="looks like a real AWS key") as refused:
            getattr(client, calls[service])()
        assert refused.value.response["Error"]["Code"] == "InvalidClientTokenId"


def test_a_key_issued_by_its_own_iam_is_accepted(tmp_path: Path) -> None:
    with LocalCloud(Settings(data_dir=tmp_path)) as own:
        iam = client_of(own.endpoint_url)("iam")
        iam.create_user(UserName="ada")
        key = iam.create_access_key(UserName="ada")["AccessKey"]
        client_of(own.endpoint_url, key["AccessKeyId"], key["SecretAccessKey"])("sqs").create_queue(QueueName="q")
        assert own.record.entries("sqs")[0]["principal"] == "arn:aws:iam::123456789012:user/ada"


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True), ("::1", True), ("localhost", True), ("s3.localhost", True), ("/tmp/socket", True),
        (None, True), (b"127.0.0.1", True), ("169.254.169.254", False), ("10.0.0.1", False),
        ("sts.amazonaws.com", False), ("127.0.0.1.example.com", False),
    ],
)  # fmt: skip
def test_only_addresses_of_this_machine_are_local(host: Any, local: bool) -> None:
    assert is_local(host) is local


def test_the_server_process_cannot_reach_another_machine(tmp_path: Path) -> None:
    code = (
        "import sys, socket, pathlib\n"
        "from localcloud.server.local_cloud import LocalCloud\n"
        "from localcloud.settings import Settings\n"
        "with LocalCloud(Settings(data_dir=pathlib.Path(sys.argv[1]))):\n"
        "    for reach in (lambda: socket.getaddrinfo('example.com', 80),\n"
        "                  lambda: socket.gethostbyaddr('192.0.2.1'),\n"
        "                  lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53)),\n"
        "                  lambda: socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.1', 53)),\n"
        "                  lambda: socket.create_connection(('192.0.2.1', 80), 1)):\n"
        "        try:\n"
        "            reach()\n"
        "        except PermissionError as error:\n"
        "            print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.count("refuses connections to other machines") == 5


def test_up_status_and_down(tmp_path: Path) -> None:
    running = lifecycle.up(tmp_path)
    assert lifecycle.status(tmp_path) == running
    try:
        assert lifecycle.up(tmp_path) == running
        client_of(running.endpoint, secret=running.secret)("sqs").create_queue(QueueName="q")
        record = json.loads(ask(running.endpoint, running.secret, "/localcloud/record"))
        assert [entry["action"] for entry in record["entries"]] == ["CreateQueue"]
    finally:
        assert lifecycle.down(tmp_path) is True
    assert lifecycle.status(tmp_path) is None
    assert lifecycle.down(tmp_path) is False
    with pytest.raises(ProcessLookupError):
        os.kill(running.pid, 0)


def test_a_process_that_reuses_the_pid_is_not_stopped(tmp_path: Path) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        state = {"pid": stranger.pid, "endpoint": "http://127.0.0.1:9", "data_dir": str(tmp_path), "secret": "x"}
        (tmp_path / "server.json").write_text(json.dumps(state))
        assert lifecycle.status(tmp_path) is None
        assert lifecycle.down(tmp_path) is False
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """Start a server in the folder that `traingrid local` uses, and stop any server there after the test."""
    monkeypatch.chdir(tmp_path)
    yield lifecycle.up(Path(".localcloud"))
    server = lifecycle.condition(Path(".localcloud")).server
    if server and holder_of(Path(".localcloud")):
        os.kill(server.pid, signal.SIGCONT)
    lifecycle.down(Path(".localcloud"))


def run_local(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["local", *arguments])


def test_a_server_that_does_not_answer_is_not_treated_as_ended(
    served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "_ANSWER_SECONDS", 0.5)
    log = Path(served.data_dir) / "server.log"
    before = log.read_text()
    assert "localcloud listens on" in before
    os.kill(served.pid, signal.SIGSTOP)
    seen = run_local("status")
    assert (seen.exit_code, seen.output.startswith(f"localcloud (process {served.pid}) runs in")) == (1, True)
    with pytest.raises(lifecycle.LifecycleError, match="No second server was started"):
        lifecycle.up(Path(".localcloud"))
    assert log.read_text() == before
    os.kill(served.pid, signal.SIGCONT)
    monkeypatch.setattr(lifecycle, "_ANSWER_SECONDS", 10)
    assert lifecycle.up(Path(".localcloud")) == served
    assert run_local("status").exit_code == 0


def test_after_a_kill_commands_report_the_loss_and_reuse_address_and_keys(served: Running) -> None:
    client_of(served.endpoint, secret=served.secret)("sqs").create_queue(QueueName="lost")
    os.kill(served.pid, signal.SIGKILL)
    lifecycle._started[served.pid].wait()
    seen = run_local("status")
    assert seen.exit_code == 1
    assert "was killed, and its stacks, buckets, ledger and jobs are lost" in seen.output
    again = run_local("up")
    assert (
        "are lost, because they were in memory. The new one is empty; bootstrap and deploy the grid again."
        in again.stderr
    )
    server = lifecycle.status(Path(".localcloud"))
    assert server is not None
    assert (server.endpoint, server.secret) == (served.endpoint, served.secret)
    assert server.pid != served.pid
    assert "QueueUrls" not in client_of(server.endpoint, secret=served.secret)("sqs").list_queues()
    assert "are lost" not in run_local("up").stderr
    assert (Path(served.data_dir) / "server.log").read_text().count("localcloud listens on") == 2


def test_after_a_kill_another_port_is_used_if_the_port_is_in_use(served: Running) -> None:
    os.kill(served.pid, signal.SIGKILL)
    lifecycle._started[served.pid].wait()
    with socket.create_server(("127.0.0.1", int(served.endpoint.rpartition(":")[2]))):
        server = lifecycle.up(Path(".localcloud"))
    assert (server.endpoint != served.endpoint, server.secret) == (True, served.secret)


def test_status_fails_if_no_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = run_local("status")
    assert (seen.exit_code, seen.output) == (1, "not running\n")


def test_two_servers_in_one_folder_are_refused(served: Running) -> None:
    command = [sys.executable, "-m", "localcloud", "--data-dir", served.data_dir]
    second = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[4])
    assert second.returncode == 1
    assert f"process {served.pid} already runs in" in second.stdout
    assert lifecycle.status(Path(".localcloud")) == served


def test_a_server_that_does_not_start_reports_the_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(lifecycle.LifecycleError, match=f"cannot listen on port {port}.*--port"):
            lifecycle.up(tmp_path, port)


def test_the_export_lines_prevent_access_to_the_real_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {
        "AWS_PROFILE": "mine", "AWS_SESSION_TOKEN": "mine", "AWS_ENDPOINT_URL_S3": "https://s3.example.com",
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true", "HTTPS_PROXY": "http://proxy",
    }  # fmt: skip
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    shell = lifecycle.export_lines(Running(1, "http://127.0.0.1:1", "/", "the secret")) + "\nenv"
    environment = {**mine, "PATH": os.environ["PATH"]}
    done = subprocess.run(["sh", "-c", shell], env=environment, capture_output=True, text=True, check=True)
    lines = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert lines["AWS_ENDPOINT_URL"] == "http://127.0.0.1:1"
    assert lines["KUBECONFIG"] == "/kubeconfig"
    assert lines["AWS_SECRET_ACCESS_KEY"] == "the secret"
    assert lines["AWS_REGION"] == lines["AWS_DEFAULT_REGION"] == "us-east-1"
    assert lines["AWS_CONFIG_FILE"] == lines["AWS_SHARED_CREDENTIALS_FILE"] == "/dev/null"
    assert {"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"}.isdisjoint(lines)
    assert lines["AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"] == "false"
    assert "127.0.0.1" in lines["NO_PROXY"]
    assert "127.0.0.1" in lines["no_proxy"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_foreground_server_cleanly(tmp_path: Path, number: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "localcloud", "--data-dir", str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith("localcloud listens on http://127.0.0.1:")
    process.send_signal(number)
    assert process.wait(LIMIT_SECONDS) == 0
    process.stdout.close()


@pytest.mark.parametrize(("rate", "expected"), [(0.0, 3), (1.0, 6)])
def test_the_settings_define_the_rate_of_duplicate_sagemaker_events(tmp_path: Path, rate: float, expected: int) -> None:
    with LocalCloud(Settings(data_dir=tmp_path, duplicate_event_rate=rate)) as own:
        client = client_of(own.endpoint_url)
        probe = Probe(client, "sagemaker").allow()
        rule(client, "sagemaker", {"source": ["aws.sagemaker"]}, {"Arn": probe.arn})
        for number in range(3):
            own.put_event("us-east-1", {"source": "aws.sagemaker", "detail-type": "T", "detail": {"n": number}})
        events = probe.events(expected + 1, 1.0)
        assert len(events) == expected
        assert len({event["id"] for event in events}) == 3


def test_no_call_is_throttled_without_api_rates(tmp_path: Path) -> None:
    with LocalCloud(Settings(data_dir=tmp_path, api_rates=False)) as own:
        sagemaker = client_of(own.endpoint_url)("sagemaker")
        assert {sagemaker.list_training_jobs()["ResponseMetadata"]["RetryAttempts"] for _ in range(20)} == {0}


def test_the_server_has_the_account_of_its_settings(tmp_path: Path) -> None:
    account = "111122223333"
    with LocalCloud(Settings(data_dir=tmp_path, account=account)) as cloud:
        client = client_of(cloud.endpoint_url)
        assert client("sts").get_caller_identity()["Account"] == account
        trust = {"Version": "2012-10-17", "Statement": []}
        client("iam").create_role(RoleName="trains", AssumeRolePolicyDocument=json.dumps(trust))
        may = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "sqs:CreateQueue", "Resource": "*"}}
        client("iam").put_role_policy(RoleName="trains", PolicyName="may", PolicyDocument=json.dumps(may))
        environment = cloud.environment_for("eu-west-1", f"arn:aws:iam::{account}:role/trains", {})
        session: Any = boto3.Session(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment["AWS_SESSION_TOKEN"],
            region_name="eu-west-1",
        )
        session.client("sqs", endpoint_url=cloud.endpoint_url).create_queue(QueueName="jobs")
        (entry,) = cloud.record.entries("sqs")
        assert entry["principal"] == f"arn:aws:sts::{account}:assumed-role/trains/localcloud"
    with pytest.raises(ValueError, match="account must have 12 digits; got '1234'"):
        Settings(account="1234")
