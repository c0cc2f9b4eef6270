import errno
import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from localcloud.sagemaker import transfer
from localcloud.sagemaker.request import S3Uri
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, runs, wait_until
from tests.integration.localcloud.training_side import READ, SageMaker


def test_a_job_has_sagemakers_statuses_artifacts_logs_and_metrics(sagemaker: SageMaker, cloud: LocalCloud) -> None:
    code = (
        READ + "print('top1=0.5'); print('top1=0.75 loss=x');"
        "open(B + '/model/weights', 'w').write('w'); open(B + '/output/data/plot', 'w').write('p')"
    )
    request = sagemaker.request(code)
    request["AlgorithmSpecification"]["MetricDefinitions"] = [
        {"Name": "top1", "Regex": r"\btop1=([-+0-9.eE]+)"},
        {"Name": "loss", "Regex": r"\bloss=([-+0-9.eE]+)"},
    ]
    created = sagemaker.api.create_training_job(**request)
    job = sagemaker.ended(request["TrainingJobName"])
    name = job["TrainingJobName"]
    assert created["TrainingJobArn"] == job["TrainingJobArn"]
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Completed", "Completed")
    steps = job["SecondaryStatusTransitions"]
    assert [step["Status"] for step in steps] == [
        "Starting",
        "Pending",
        "Downloading",
        "Training",
        "Uploading",
        "Completed",
    ]
    assert [step["EndTime"] for step in steps[:-1]] == [step["StartTime"] for step in steps[1:]]
    assert steps[3]["StatusMessage"] == "Training image download completed. Training in progress."
    assert job["ModelArtifacts"] == {"S3ModelArtifacts": f"s3://{sagemaker.bucket}/out/{name}/output/model.tar.gz"}
    assert sagemaker.archive(name, "model.tar.gz") == ["weights"]
    assert sagemaker.archive(name, "output.tar.gz") == ["plot"]
    assert [(m["MetricName"], m["Value"]) for m in job["FinalMetricDataList"]] == [("top1", 0.75)]
    assert sagemaker.lines(job) == ["top1=0.5", "top1=0.75 loss=x"]
    assert job["CreationTime"] <= job["TrainingStartTime"] < job["TrainingEndTime"] == job["LastModifiedTime"]
    assert job["BillableTimeInSeconds"] == job["TrainingTimeInSeconds"] >= 1
    wait_until(lambda: not (cloud.data_dir / "training" / "us-east-1" / name).exists())


def test_the_container_gets_sagemakers_files_variables_and_data(sagemaker: SageMaker) -> None:
    code = (
        READ + "c = lambda n: json.dumps(json.load(open(f'{B}/input/config/{n}.json')));"
        "print(c('hyperparameters')); print(c('resourceconfig')); print(c('inputdataconfig'));"
        "print(open(B + '/input/data/train/a').read() + open(B + '/input/data/train/b/c').read(), sys.argv[1:]);"
        "e = os.environ; print(e['TRAINING_JOB_NAME'], e['TRAINING_JOB_ARN'], e['AWS_REGION'], e['MINE']);"
        "import boto3; print(boto3.client('sts').get_caller_identity()['Arn'])"
    )
    request = sagemaker.request(code, HyperParameters={"lr": "0.1"}, Environment={"MINE": "1"})
    request["AlgorithmSpecification"]["TrainingInputMode"] = "FastFile"
    sagemaker.api.create_training_job(**request)
    job = sagemaker.ended(request["TrainingJobName"])
    hyperparameters, resources, inputs, data, variables, caller = sagemaker.lines(job)
    assert json.loads(hyperparameters) == {"lr": "0.1"}
    group = {"hosts": ["algo-1"], "instance_group_name": "homogeneousCluster", "instance_type": "ml.c5.xlarge"}
    assert json.loads(resources) == {
        "current_group_name": "homogeneousCluster",
        "current_host": "algo-1",
        "current_instance_type": "ml.c5.xlarge",
        "hosts": ["algo-1"],
        "instance_groups": [group],
        "network_interface_name": "lo0" if sys.platform == "darwin" else "lo",
    }
    assert json.loads(inputs) == {
        "train": {
            "TrainingInputMode": "File",
            "S3DistributionType": "FullyReplicated",
            "RecordWrapperType": "None",
        }
    }
    assert data == "AC ['train']"
    assert variables == f"{job['TrainingJobName']} {job['TrainingJobArn']} us-east-1 1"
    assert caller.startswith(f"arn:aws:sts::{ACCOUNT}:assumed-role/training-role/")


def test_arguments_of_the_request_follow_the_images_arguments(sagemaker: SageMaker) -> None:
    request = sagemaker.request("import sys; print(sys.argv[1:])")
    request["AlgorithmSpecification"]["ContainerArguments"] = ["--more"]
    sagemaker.api.create_training_job(**request)
    assert sagemaker.lines(sagemaker.ended(request["TrainingJobName"])) == ["['train', '--more']"]


def test_shards_and_manifests_reach_their_hosts(sagemaker: SageMaker) -> None:
    sagemaker.put("list", json.dumps([{"prefix": f"s3://{sagemaker.bucket}/data/"}, "b/c"]))
    code = (
        READ + "from pathlib import Path;"
        "print(sorted(p.relative_to(B).as_posix() for p in Path(B, 'input/data').rglob('*') if p.is_file()))"
    )
    job = sagemaker.run(
        code,
        hosts=2,
        InputDataConfig=[
            sagemaker.channel("shard", S3DataDistributionType="ShardedByS3Key"),
            sagemaker.channel("listed", f"s3://{sagemaker.bucket}/list", S3DataType="ManifestFile"),
            sagemaker.channel("one", f"s3://{sagemaker.bucket}/data/a"),
        ],
    )
    assert sagemaker.lines(job, 1) == ["['input/data/listed/b/c', 'input/data/one/a', 'input/data/shard/a']"]
    assert sagemaker.lines(job, 2) == ["['input/data/listed/b/c', 'input/data/one/a', 'input/data/shard/b/c']"]


def test_hosts_with_torchrun_resolve_each_other_and_get_ports_of_their_own(sagemaker: SageMaker) -> None:
    code = (
        "import os, socket; host = os.environ['SAGEMAKER_BASE_DIR'].split('/')[-2];"
        "print([socket.gethostbyname(name) for name in ('algo-1', 'algo-2', 'localhost')]);"
        "server = socket.create_server(('', int(os.environ['MASTER_PORT']) + int(host[-1]) - 1)); print(host)"
    )
    job = sagemaker.run(code, hosts=2, HyperParameters={"sagemaker_torch_distributed_enabled": "true"})
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    for number in (1, 2):
        assert sagemaker.lines(job, number) == ["['127.0.0.1', '127.0.0.1', '127.0.0.1']", f"algo-{number}"]


def test_a_job_may_set_its_own_port(sagemaker: SageMaker) -> None:
    job = sagemaker.run(
        "import os; print(os.environ['MASTER_PORT'])",
        hosts=2,
        HyperParameters={"sagemaker_launcher": "none"},
        Environment={"MASTER_PORT": "7000"},
    )
    assert sagemaker.lines(job, 2) == ["7000"]


def test_hosts_with_mpi_do_not_resolve_because_mpirun_would_take_them_for_one_host(sagemaker: SageMaker) -> None:
    code = "import os, socket; print('MASTER_PORT' in os.environ, flush=True); socket.getaddrinfo('algo-2', 1)"
    job = sagemaker.run(code, hosts=2, HyperParameters={"sagemaker_mpi_enabled": "true"})
    assert sagemaker.lines(job)[0] == "False"
    assert job["TrainingJobStatus"] == "Failed"


def test_one_archive_contains_the_files_of_all_hosts(sagemaker: SageMaker) -> None:
    code = (
        READ + "h = json.load(open(B + '/input/config/resourceconfig.json'))['current_host'];"
        "open(f'{B}/model/{h}', 'w'); open(f'{B}/model/both', 'w')"
    )
    job = sagemaker.run(code, hosts=2)
    assert sagemaker.archive(job["TrainingJobName"], "model.tar.gz") == ["algo-1", "algo-2", "both"]


def test_a_failed_host_fails_the_job_with_its_message_and_stops_the_others(sagemaker: SageMaker) -> None:
    code = (
        READ + "import time; h = json.load(open(B + '/input/config/resourceconfig.json'))['current_host'];"
        "h == 'algo-1' and time.sleep(60); open(B + '/output/failure', 'w').write('no ' * 1000); sys.exit(3)"
    )
    job = sagemaker.run(code, hosts=2)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Failed", "Failed")
    assert job["FailureReason"].startswith("AlgorithmError: no no no ")
    assert job["FailureReason"].endswith(", exit code: 3")
    assert len(job["FailureReason"]) == 1024
    assert "ModelArtifacts" not in job


def test_stop_sends_sigterm_and_uploads_the_written_files(sagemaker: SageMaker) -> None:
    code = (
        READ + "import signal, time;"
        "signal.signal(15, lambda *_: (open(B + '/model/last', 'w').close(), sys.exit(0)));"
        "print('up', flush=True); time.sleep(60)"
    )
    name = sagemaker.waiting(code)
    sagemaker.api.stop_training_job(TrainingJobName=name)
    sagemaker.api.stop_training_job(TrainingJobName=name)
    job = sagemaker.ended(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert [step["Status"] for step in job["SecondaryStatusTransitions"]][-3:] == ["Stopping", "Uploading", "Stopped"]
    assert sagemaker.archive(name, "model.tar.gz") == ["last"]
    with pytest.raises(ClientError, match=r"rejected because the training job is in status Stopped\."):
        sagemaker.api.stop_training_job(TrainingJobName=name)


def test_a_container_that_ignores_sigterm_is_killed(sagemaker: SageMaker) -> None:
    code = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(60)"
    name = sagemaker.waiting(code)
    sagemaker.api.stop_training_job(TrainingJobName=name)
    (pid,) = sagemaker.lines(sagemaker.job(name))
    assert sagemaker.job(name)["TrainingJobStatus"] == "Stopping"
    assert sagemaker.ended(name)["TrainingJobStatus"] == "Stopped"
    assert not runs(int(pid))


def test_a_job_that_exceeds_its_runtime_is_stopped(sagemaker: SageMaker) -> None:
    job = sagemaker.run("import time; time.sleep(60)", StoppingCondition={"MaxRuntimeInSeconds": 1})
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "MaxRuntimeExceeded")


def test_checkpoints_are_uploaded_during_training_and_restored_for_the_next_job(sagemaker: SageMaker) -> None:
    config: dict[str, Any] = {"CheckpointConfig": {"S3Uri": f"s3://{sagemaker.bucket}/checkpoints"}}
    name = sagemaker.waiting(
        READ + "import time; open(B + '/checkpoints/one', 'w').write('1'); print('up', flush=True); time.sleep(60)",
        **config,
    )
    found = wait_until(
        lambda: sagemaker.s3.list_objects_v2(Bucket=sagemaker.bucket, Prefix="checkpoints/").get("Contents")
    )
    assert [entry["Key"] for entry in found or []] == ["checkpoints/one"]
    sagemaker.api.stop_training_job(TrainingJobName=name)
    sagemaker.ended(name)
    job = sagemaker.run(READ + "print(open(B + '/checkpoints/one').read())", **config)
    assert sagemaker.lines(job) == ["1"]


def test_a_key_that_is_an_object_and_a_folder_fails_with_both_named(sagemaker: SageMaker) -> None:
    for key in ("both/part", "both/part/more"):
        sagemaker.s3.put_object(Bucket=sagemaker.bucket, Key=key, Body=b"x")
    data = sagemaker.channel("both", f"s3://{sagemaker.bucket}/both/")
    name = sagemaker.create(READ, InputDataConfig=[*sagemaker.request(READ)["InputDataConfig"], data])
    reason = sagemaker.ended(name)["FailureReason"]
    assert (
        f"s3://{sagemaker.bucket}/both/part/more: one key is both an object and the folder of other objects" in reason
    )


def test_a_checkpoint_that_is_copied_has_a_marker_that_is_not_copied(sagemaker: SageMaker) -> None:
    program = (
        READ + "import os, time; folder = B + '/checkpoints'; open(folder + '/one', 'w').write('1')\n"
        "while not os.path.exists(folder + '/one.sagemaker-uploaded'): time.sleep(0.1)\n"
        "print(sorted(name for name in os.listdir(folder) if not name.endswith('-uploading')))"
    )
    job = sagemaker.run(program, CheckpointConfig={"S3Uri": f"s3://{sagemaker.bucket}/marked"})
    assert sagemaker.lines(job) == ["['one', 'one.sagemaker-uploaded']"]
    listed = sagemaker.s3.list_objects_v2(Bucket=sagemaker.bucket, Prefix="marked/")["Contents"]
    assert [entry["Key"] for entry in listed] == ["marked/one"]


def test_a_job_stopped_before_training_never_trains(sagemaker: SageMaker) -> None:
    name = sagemaker.create("print('trained')")
    sagemaker.api.stop_training_job(TrainingJobName=name)
    job = sagemaker.ended(name)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert "Training" not in [step["Status"] for step in job["SecondaryStatusTransitions"]]
    assert "ModelArtifacts" not in job


def test_output_can_be_any_bytes_and_long_lines_are_split(sagemaker: SageMaker) -> None:
    job = sagemaker.run("import sys; sys.stdout.buffer.write(b'\\xff|\\n' + b'x' * 300_000 + b'\\nlast')")
    lines = sagemaker.lines(job)
    assert (lines[0], lines[-1]) == ("\ufffd|", "last")
    assert [len(line) for line in lines[1:-1]] == [262_144, 300_000 - 262_144]


def test_a_containers_remaining_processes_end_with_it(sagemaker: SageMaker) -> None:
    leave = "import subprocess; print(subprocess.Popen(['sleep', '300'], start_new_session=True, env={}).pid)"
    job = sagemaker.run(leave)
    assert job["TrainingJobStatus"] == "Completed"
    wait_until(lambda: not runs(int(sagemaker.lines(job)[0])))


def test_a_manifest_with_a_missing_object_fails_the_job_during_the_download(sagemaker: SageMaker) -> None:
    sagemaker.put("broken", json.dumps([{"prefix": f"s3://{sagemaker.bucket}/"}, "missing"]))
    channel = sagemaker.channel("train", f"s3://{sagemaker.bucket}/broken", S3DataType="ManifestFile")
    job = sagemaker.run(InputDataConfig=[channel])
    assert job["FailureReason"].startswith("ClientError: Data download failed:")
    assert job["SecondaryStatusTransitions"][-2]["Status"] == "Downloading"


def test_every_status_change_sends_an_event_in_the_jobs_region(
    sagemaker: SageMaker, cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        cloud, "put_event", lambda region, event, account: events.append((f"{account}/{region}", event))
    )
    job = sagemaker.run(Tags=[{"Key": "a", "Value": "1"}])
    assert {place for place, _ in events} == {"123456789012/us-east-1"}
    assert [event["detail"]["SecondaryStatus"] for _, event in events] == [
        step["Status"] for step in job["SecondaryStatusTransitions"]
    ]
    last = events[-1][1]
    assert (last["source"], last["detail-type"]) == ("aws.sagemaker", "SageMaker Training Job State Change")
    assert last["resources"] == [job["TrainingJobArn"]]
    assert last["detail"]["Tags"] == {"a": "1"}
    assert last["detail"]["TrainingEndTime"] == int(job["TrainingEndTime"].timestamp() * 1000)
    assert "BillableTimeInSeconds" not in last["detail"]
    json.dumps(last)


def test_tags_are_listed_and_added(sagemaker: SageMaker) -> None:
    job = sagemaker.run(Tags=[{"Key": "a", "Value": "1"}])
    arn = job["TrainingJobArn"]
    sagemaker.api.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "2"}, {"Key": "b", "Value": "3"}])
    assert sagemaker.api.list_tags(ResourceArn=arn)["Tags"] == [
        {"Key": "a", "Value": "2"},
        {"Key": "b", "Value": "3"},
    ]


def test_a_job_without_room_for_its_results_names_the_disk(
    sagemaker: SageMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device", "/opt/ml/model")

    monkeypatch.setattr(transfer, "upload_archive", full)
    assert sagemaker.run()["FailureReason"] == "ClientError: Artifact upload failed:Insufficient disk space"


def test_a_program_that_does_not_exist_fails_the_job(sagemaker: SageMaker) -> None:
    request = sagemaker.request()
    request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/no-such-program"]
    sagemaker.api.create_training_job(**request)
    job = sagemaker.ended(request["TrainingJobName"])
    assert "could not be started" in job["FailureReason"]
    assert "/no-such-program" in job["FailureReason"]


def test_a_command_of_the_sdk_with_absolute_paths_is_refused_in_a_sentence(sagemaker: SageMaker) -> None:
    request = sagemaker.request()
    request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/bin/bash"]
    request["AlgorithmSpecification"]["ContainerArguments"] = [
        "-c",
        "chmod +x /opt/ml/input/data/sm_drivers/sm_train.sh",
    ]
    sagemaker.api.create_training_job(**request)
    job = sagemaker.ended(request["TrainingJobName"])
    assert "localcloud runs a program without a container" in job["FailureReason"]


def test_training_jobs_are_listed_by_status_and_name_in_pages(client: Callable[..., Any]) -> None:
    sagemaker = SageMaker(client, "eu-central-1")
    names = [sagemaker.run(TrainingJobName=name)["TrainingJobName"] for name in ("ab", "b", "abc")]
    failed = sagemaker.run("import sys; sys.exit(1)", TrainingJobName="abcd")["TrainingJobName"]
    # An account allows 2 ListTrainingJobs calls per second; boto3's default of 5 attempts may be too few.
    patient = Config(retries={"total_max_attempts": 10, "mode": "standard"})
    sagemaker.api = client("sagemaker", "eu-central-1", patient)

    def listed(**query: Any) -> list[str]:
        pages = sagemaker.api.get_paginator("list_training_jobs").paginate(**query)
        return [job["TrainingJobName"] for page in pages for job in page["TrainingJobSummaries"]]

    assert listed(MaxResults=1) == [*names, failed]
    assert listed(StatusEquals="Failed") == [failed]
    page = sagemaker.api.list_training_jobs(StatusEquals="Failed", MaxResults=1)
    assert (page["TrainingJobSummaries"], "NextToken" in page) == ([], True), "a page is cut before it is filtered"
    assert listed(StatusEquals="Failed", MaxResults=1) == [failed]
    assert listed(NameContains="ab", SortBy="Name", SortOrder="Descending") == ["abcd", "abc", "ab"]
    minute_later = sagemaker.job(failed)["CreationTime"] + timedelta(minutes=1)
    assert listed(CreationTimeAfter=minute_later) == []
    assert len(listed(CreationTimeBefore=minute_later)) == 4


def test_metrics_are_published_to_cloudwatch_by_training_job(sagemaker: SageMaker, client: Callable[..., Any]) -> None:
    request = sagemaker.request("print('loss=0.5'); print('loss=0.25')")
    request["AlgorithmSpecification"]["MetricDefinitions"] = [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]
    sagemaker.api.create_training_job(**request)
    job = sagemaker.ended(request["TrainingJobName"])
    found = client("cloudwatch").get_metric_statistics(
        Namespace="/aws/sagemaker/TrainingJobs",
        MetricName="loss",
        Dimensions=[{"Name": "TrainingJobName", "Value": job["TrainingJobName"]}],
        StartTime=job["TrainingStartTime"] - timedelta(minutes=2),
        EndTime=job["TrainingEndTime"] + timedelta(minutes=2),
        Period=3600,
        Statistics=["SampleCount", "Minimum"],
    )
    assert sum(point["SampleCount"] for point in found["Datapoints"]) == 2
    assert min(point["Minimum"] for point in found["Datapoints"]) == 0.25


def test_debugger_hook_and_profiler_are_accepted_but_rules_are_refused(sagemaker: SageMaker) -> None:
    """The SageMaker Python SDK v2 sends the hook by default."""
    hook = {"S3OutputPath": f"s3://{sagemaker.bucket}/debug", "CollectionConfigurations": []}
    profiler = {"S3OutputPath": f"s3://{sagemaker.bucket}/profile", "DisableProfiler": False}
    job = sagemaker.run(DebugHookConfig=hook, ProfilerConfig=profiler)
    assert (job["TrainingJobStatus"], job["DebugHookConfig"]) == ("Completed", hook)
    assert (job["ProfilerConfig"], job["ProfilingStatus"]) == (profiler, "Enabled")
    rule = {
        "RuleConfigurationName": "loss",
        "RuleEvaluatorImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/rules:1",
    }
    with pytest.raises(ClientError, match="DebugRuleConfigurations is not supported by localcloud"):
        sagemaker.create(DebugRuleConfigurations=[rule])


def test_an_isolated_container_has_its_data_but_no_credentials(sagemaker: SageMaker) -> None:
    code = (
        f"{READ} print([name for name in ('AWS_ENDPOINT_URL', 'AWS_ACCESS_KEY_ID') if name in os.environ]);"
        "print(open(B + '/input/data/train/a').read())"
    )
    isolated = sagemaker.run(code, EnableNetworkIsolation=True)
    assert isolated["TrainingJobStatus"] == "Completed"
    assert sagemaker.lines(isolated) == ["[]", "A"]
    assert "AWS_ACCESS_KEY_ID" in sagemaker.lines(sagemaker.run(code))[0]


def test_a_checkpoint_that_a_training_deletes_meanwhile_does_not_end_the_copies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder disappears between the list of its parent and its own."""

    class Uploads:
        def __init__(self) -> None:
            self.keys: list[str] = []

        def upload_file(self, _file: str, _bucket: str, key: str) -> None:
            self.keys.append(key)

    def scan(path: Any) -> Any:
        if Path(path).name == "deleted":
            raise FileNotFoundError(path)
        return unchanged(path)

    unchanged, uploads = os.scandir, Uploads()
    sync = transfer.CheckpointSync(uploads, [tmp_path], S3Uri(bucket="output", key="checkpoints"))
    for name in ("deleted", "kept"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.json").write_text("{}")
    monkeypatch.setattr(os, "scandir", scan)
    sync.start()
    sync.finish()
    assert uploads.keys == ["checkpoints/kept/state.json"]
