"""The environment of the processes of pods: volumes, variables, and the names of other pods."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from localcloud.checkout.images import ORCHESTRATOR
from localcloud.credentials.environments import user_environment
from localcloud.ecr import process_images
from localcloud.sagemaker.file_systems import folder_of
from localcloud.server.local_cloud import LocalCloud
from tests.integration.localcloud.compute import ACCOUNT, image, wait_until
from tests.integration.localcloud.kubernetes.running_cluster import (
    JOBS,
    PODS,
    Cluster,
    a_running_cluster,
    training_job,
)
from tests.support.eks_jobs import NAME, eks_job, training_object
from traingrid.backends.eks.indexed_job import indexed_job
from traingrid.job.job import Channel

CORE = "/api/v1/namespaces/default"


@pytest.fixture(scope="module")
def cluster(cloud: LocalCloud) -> Iterator[Cluster]:
    def environment(_namespace: str, _service_account: str) -> dict[str, str]:
        return user_environment(cloud.endpoint_url, "us-east-1")

    with a_running_cluster(cloud, pod_environment=environment) as running:
        yield running


def log_of(cluster: Cluster, name: str, container: str = "train") -> str:
    wait_until(lambda: "Complete" in cluster.conditions(name) or "Failed" in cluster.conditions(name))
    path = f"{PODS}/{cluster.pods(name)[0]['metadata']['name']}/log"
    return cluster.request("GET", path, container=container).read().decode()


def test_a_pod_reads_its_annotations_from_a_file(cluster: Cluster, client: Callable[..., Any]) -> None:
    code = "import os; print(open(os.environ['TRAINGRID_POD_FILES'] + '/request.json').read(), os.environ['CARDS'])"
    item = {"path": "request.json", "fieldRef": {"fieldPath": "metadata.annotations['traingrid/request']"}}
    made = training_job("files", image(client("ecr"), "files", code, "train"), hosts=1)
    pod = made["spec"]["template"]
    pod["metadata"]["annotations"] = {"traingrid/request": '{"a": 1}'}
    pod["spec"]["volumes"] = [{"name": "job", "downwardAPI": {"items": [item]}}]
    pod["spec"]["containers"][0] |= {
        "volumeMounts": [{"name": "job", "mountPath": "/etc/traingrid"}],
        "env": [{"name": "COUNT", "value": "8"}, {"name": "CARDS", "value": "$(COUNT) $$(COUNT) $(OTHER)"}],
    }
    cluster.ask("POST", JOBS, made)
    assert log_of(cluster, "files") == '{"a": 1} 8 $(COUNT) $(OTHER)\n'


def test_python_of_the_orchestrator_runs_another_module(cluster: Cluster, client: Callable[..., Any]) -> None:
    client("ecr").create_repository(repositoryName="orchestrator")
    process_images.push(client("ecr"), "orchestrator", "v1", ORCHESTRATOR)
    made = training_job("module", f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/orchestrator:v1", hosts=1)
    container = made["spec"]["template"]["spec"]["containers"][0]
    del container["args"]
    container["command"] = ["python3", "-m", "traingrid.pod", "prepare"]
    cluster.ask("POST", JOBS, made)
    wait_until(lambda: "Failed" in cluster.conditions("module"))
    status = cluster.pods("module")[0]["status"]["containerStatuses"][0]["state"]["terminated"]
    assert "request of the training job cannot be read" in status["message"]


@pytest.mark.parametrize("driver", ["s3.csi.aws.com", "fsx.csi.aws.com"])
def test_a_claim_is_a_folder_below_opt_ml(
    cloud: LocalCloud, cluster: Cluster, client: Callable[..., Any], driver: str
) -> None:
    name = driver.partition(".")[0]
    source: dict[str, Any] = {"driver": driver, "volumeHandle": "bucket"}
    if name == "s3":
        client("s3").create_bucket(Bucket="claimed")
        client("s3").put_object(Bucket="claimed", Key="data/train/a", Body=b"content of s3")
        source["volumeAttributes"] = {"bucketName": "claimed"}
    else:
        subnet = client("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
        made = client("fsx").create_file_system(FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=[subnet])
        source["volumeHandle"] = made["FileSystem"]["FileSystemId"]
        folder = folder_of(cloud.data_dir, ACCOUNT, "us-east-1", source["volumeHandle"]) / "train"
        folder.mkdir(parents=True)
        (folder / "a").write_text("content of fsx")
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "csi": source}
    options = ["allow-delete", "prefix data/"] if name == "s3" else []
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{name}-volume"}}
    cluster.ask("POST", "/api/v1/persistentvolumes", {**volume, "spec": {**spec, "mountOptions": options}})
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": f"{name}-claim"}}
    wanted = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": f"{name}-volume"}
    code = "import os; print(open(os.environ['SAGEMAKER_BASE_DIR'] + '/input/data/train/a').read())"
    job = training_job(
        f"reads-{name}",
        image(client("ecr"), "reads", code, "train"),
        hosts=1,
        volumes=[
            {"name": "opt-ml", "emptyDir": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": f"{name}-claim", "readOnly": True}},
        ],
    )
    job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "opt-ml", "mountPath": "/opt/ml"},
        {"name": "data", "mountPath": "/opt/ml/input/data/train", "subPath": "train", "readOnly": True},
    ]
    cluster.ask("POST", JOBS, job)
    wait_until(lambda: cluster.pods(f"reads-{name}"))
    pod = cluster.pods(f"reads-{name}")[0]["metadata"]["name"]
    wait_until(lambda: "FailedMount" in cluster.reasons(pod))
    cluster.ask("POST", f"{CORE}/persistentvolumeclaims", {**claim, "spec": wanted})
    assert log_of(cluster, f"reads-{name}") == f"content of {name}\n"
    assert cluster.ask("GET", f"{CORE}/persistentvolumeclaims/{name}-claim")[1]["status"]["phase"] == "Bound"


@pytest.fixture
def bucket_claim(cluster: Cluster, client: Callable[..., Any]) -> str:
    """Return the name of a claim of the bucket `fast`, which has the object set/a."""
    client("s3").create_bucket(Bucket="fast")
    client("s3").put_object(Bucket="fast", Key="set/a", Body=b"content")
    source = {"driver": "s3.csi.aws.com", "volumeHandle": "fast", "volumeAttributes": {"bucketName": "fast"}}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "csi": source}
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "fast"}, "spec": spec}
    cluster.ask("POST", "/api/v1/persistentvolumes", volume)
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "fast"}}
    wanted = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": "fast"}
    cluster.ask("POST", f"{CORE}/persistentvolumeclaims", {**claim, "spec": wanted})
    return "fast"


def test_a_container_sees_only_the_mounts_that_it_declares(
    cluster: Cluster, client: Callable[..., Any], bucket_claim: str
) -> None:
    folder = "os.path.join(os.environ['SAGEMAKER_BASE_DIR'], 'input/data/train')"
    code = f"import os; at = {folder}; print(os.path.isdir(at) and os.listdir(at))"
    uri = image(client("ecr"), "sees", code, "train")
    volumes = [{"name": "opt-ml", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "fast"}}]
    base = {"name": "opt-ml", "mountPath": "/opt/ml"}
    mounts = [base, {"name": "data", "mountPath": "/opt/ml/input/data/train", "subPath": "set", "readOnly": True}]
    made = training_job("sees", uri, hosts=1, volumes=volumes)
    spec = made["spec"]["template"]["spec"]
    asked = [("before", [base]), ("first", mounts), ("between", [base])]
    spec["initContainers"] = [
        {"name": name, "image": uri, "args": ["train"], "volumeMounts": declared} for name, declared in asked
    ]
    spec["containers"][0]["volumeMounts"] = mounts
    cluster.ask("POST", JOBS, made)
    assert log_of(cluster, "sees", "train") == "['a']\n"
    assert [log_of(cluster, "sees", name) for name, _ in asked] == ["False\n", "['a']\n", "[]\n"]


def test_a_training_job_reads_a_channel_in_fastfile_mode(
    cluster: Cluster, client: Callable[..., Any], bucket_claim: str
) -> None:
    code = "import os; print(open(os.environ['SAGEMAKER_BASE_DIR'] + '/input/data/train/a').read())"
    client("ecr").create_repository(repositoryName="pod")
    process_images.push(client("ecr"), "pod", "v1", ORCHESTRATOR)
    job = eks_job(
        inputs={"train": Channel(uri="s3://fast/set/", input_mode="FastFile")},
        image=image(client("ecr"), "fast", code, "train"),
        output="s3://fast/results/",
    )
    pod_image = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/pod:v1"
    wanted = replace(training_object(job, namespace="default", service_account="default"), pod_image=pod_image)
    wanted = replace(wanted, cluster=wanted.cluster.model_copy(update={"s3_volumes": {"fast": bucket_claim}}))
    status, reply = cluster.ask("POST", JOBS, indexed_job(wanted))
    assert status == 201, reply
    assert log_of(cluster, NAME, "train") == "content\n", log_of(cluster, NAME, "prepare")


def test_pods_of_a_service_reach_each_other_by_name(cluster: Cluster, client: Callable[..., Any]) -> None:
    code = (
        "import os, socket, time; E = os.environ; address = ('names-0.names', int(E['MASTER_PORT']))\n"
        "if E['JOB_COMPLETION_INDEX'] == '0':\n"
        "    print(socket.create_server(('', address[1])).accept()[0].recv(100).decode())\n"
        "while E['JOB_COMPLETION_INDEX'] == '1':\n"
        "    try: socket.create_connection(address).sendall(b'hello'); break\n"
        "    except OSError: time.sleep(0.1)\n"
    )
    request: dict[str, Any] = {"HyperParameters": {"sagemaker_torch_distributed_enabled": "true"}}
    request |= {"ResourceConfig": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 5}}
    made = training_job("names", image(client("ecr"), "names", code, "train"), subdomain="names")
    made["spec"]["template"]["metadata"]["annotations"] = {"traingrid/request": json.dumps(request)}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "names"}}
    selector = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"traingrid/name": "names"}}
    cluster.ask("POST", JOBS, made)
    cluster.ask("POST", f"{CORE}/services", {**service, "spec": selector})
    assert log_of(cluster, "names") == "hello\n"
