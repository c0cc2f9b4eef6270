"""The environment of the processes of pods: volumes, variables, and the names of other pods."""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

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
from tests.integration.localcloud.training_side import SageMaker
from tests.support.eks_jobs import NAME, eks_job, training_object
from traingrid.backends.eks.indexed_job import indexed_job
from traingrid.job.job import Channel, Job
from verification.checkout.images import ORCHESTRATOR

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


LIST = "import os; base = os.environ['SAGEMAKER_BASE_DIR']; print(sorted(os.listdir(base)), os.path.isdir(base + '/a'))"


@pytest.mark.parametrize(
    ("name", "mounts", "seen"),
    [
        ("nowhere", [], "['a', 'code', 'model'] True"),
        ("everywhere", [{"mountPath": "/opt/ml"}], "[] False"),
        ("model", [{"mountPath": "/opt/ml/model", "subPath": "model"}], "['a', 'code', 'model'] True"),
        ("new", [{"mountPath": "/opt/ml/a/b/c", "subPath": "x/y"}], "['a', 'code', 'model'] True"),
    ],
)
def test_a_volume_hides_the_files_of_the_image_where_it_is_mounted(
    cluster: Cluster, client: Callable[..., Any], name: str, mounts: list[dict[str, str]], seen: str
) -> None:
    look = f"{LIST}; print([sorted(names) for _, _, names in os.walk(base, followlinks=True)])"
    files = {"code/train.py": "", "model/of-the-image": "", "a/file": ""}
    uri = pushed(client, f"image-{name}", look, opt_ml=files)
    made = training_job(f"seen-{name}", uri, hosts=1, volumes=[{"name": "opt-ml", "emptyDir": {}}])
    declared = [{"name": "opt-ml", **mount} for mount in mounts]
    made["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = declared
    cluster.ask("POST", JOBS, made)
    listed, held = log_of(cluster, f"seen-{name}").splitlines()
    assert listed == seen
    assert ("of-the-image" in held, "train.py" in held) == (name in ("nowhere", "new"), name != "everywhere")


def pushed(client: Callable[..., Any], repository: str, code: str, **fields: Any) -> str:
    """Push an image with more than a command, and return its URI."""
    client("ecr").create_repository(repositoryName=repository)
    made = process_images.ProcessImage(command=(sys.executable, "-c", code), **fields)
    process_images.push(client("ecr"), repository, "v1", made)
    return f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/{repository}:v1"


@pytest.fixture(scope="module")
def pod_image(client: Callable[..., Any]) -> str:
    client("ecr").create_repository(repositoryName="pod")
    process_images.push(client("ecr"), "pod", "v1", ORCHESTRATOR)
    return f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/pod:v1"


def train(cluster: Cluster, pod_image: str, name: str, job: Job, **settings: Any) -> str:
    """Run a training job of the product, and return the log of its program."""
    wanted = training_object(job, namespace="default", service_account="default", **settings)
    request = {**wanted.request, "TrainingJobName": name}
    made = indexed_job(replace(wanted, name=name, pod_image=pod_image, request=request))
    status, reply = cluster.ask("POST", JOBS, made)
    assert status == 201, reply
    return log_of(cluster, name, "train")


def test_a_training_job_reads_a_channel_in_fastfile_mode(
    cluster: Cluster, client: Callable[..., Any], bucket_claim: str, pod_image: str
) -> None:
    code = "import os; print(open(os.environ['SAGEMAKER_BASE_DIR'] + '/input/data/train/a').read())"
    job = eks_job(
        inputs={"train": Channel(uri="s3://fast/set/", input_mode="FastFile")},
        image=image(client("ecr"), "fast", code, "train"),
        output="s3://fast/results/",
    )
    assert train(cluster, pod_image, NAME, job, s3_volumes={"fast": bucket_claim}) == "content\n"


PROGRAM = """
import json, os, pathlib
base = pathlib.Path(os.environ['SAGEMAKER_BASE_DIR'])
print(json.loads((base / 'input/config/hyperparameters.json').read_text())['lr'])
print((base / 'input/data/train/a').read_text())
(base / 'model/weights').write_text('w')
(base / 'output/data/plot').write_text('p')
"""


def test_a_program_in_the_image_below_opt_ml_trains_on_eks_as_on_sagemaker(
    cluster: Cluster, client: Callable[..., Any], sagemaker: SageMaker, pod_image: str
) -> None:
    """As with the SageMaker Training Toolkit: `COPY train.py /opt/ml/code/train.py`."""
    code = "import os, runpy; runpy.run_path(os.environ['SAGEMAKER_BASE_DIR'] + '/code/train.py')"
    uri = pushed(client, "toolkit", code, opt_ml={"code/train.py": PROGRAM, "model/of-the-image": "hidden"})
    request = sagemaker.request("pass", HyperParameters={"lr": "0.1"})
    request["AlgorithmSpecification"]["TrainingImage"] = uri
    client("sagemaker").create_training_job(**request)
    ended = sagemaker.ended(request["TrainingJobName"])
    assert (ended["TrainingJobStatus"], sagemaker.lines(ended)) == ("Completed", ["0.1", "A"])
    job = eks_job(
        image=uri,
        inputs={"train": Channel(uri=f"s3://{sagemaker.bucket}/data/")},
        hyperparameters={"lr": "0.1"},
        output=f"s3://{sagemaker.bucket}/out/",
    )
    assert train(cluster, pod_image, "grid-0123abcd-0-2", job) == "0.1\nA\n"
    for name in (request["TrainingJobName"], "grid-0123abcd-0-2"):
        assert sagemaker.archive(name, "model.tar.gz") == ["weights"]
        assert sagemaker.archive(name, "output.tar.gz") == ["plot"]


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
