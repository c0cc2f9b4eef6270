"""A grid whose second Region trains in a cluster of EKS, and the lines, Jobs and pods of its tests."""

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
import yaml

from localcloud.ecr import process_images
from tests.integration.control_plane.account import HOME, OTHER, Account
from tests.integration.control_plane.child_process import Line
from tests.integration.localcloud.compute import ACCOUNT, image, role, wait_until
from tests.integration.localcloud.eks.clusters import CLUSTER_TRUST, POD_TRUST
from tests.integration.localcloud.eks.clusters import role as trusted
from tests.support.sample_job import sample_job
from traingrid.audit.audit import audit
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.backends.eks.jobs import ClusterJobs
from traingrid.deploy.cluster_access import access_objects
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job
from traingrid.kubernetes.client import JOB, POD, Client, Kind
from verification.checkout.images import ORCHESTRATOR

TRAIN = """
import json, os, pathlib, signal, sys, time
base = pathlib.Path(os.environ['SAGEMAKER_BASE_DIR'])
options = json.loads((base / 'input/config/hyperparameters.json').read_text())
signal.signal(signal.SIGTERM, lambda *_: sys.exit(int(options.get('on_sigterm', 143))))
hosts = json.loads((base / 'input/config/resourceconfig.json').read_text())
print('trains', sorted(path.name for path in (base / 'input/data/train').iterdir()), hosts['current_host'], flush=True)
if os.environ['TRAINING_JOB_NAME'].endswith('-1'):
    time.sleep(float(options['seconds']))
if options.get('fails'):
    (base / 'output').mkdir(exist_ok=True)
    (base / 'output/failure').write_text('ValueError: the loss is NaN')
    sys.exit(3)
(base / 'model/weights').write_text('1.0')
print('ends', flush=True)
"""
"""Trains for `seconds` in the first attempt; then fails if `fails`, or writes a model. Ends with `on_sigterm`."""


class ClusterAccount(Account):
    """A grid whose second Region has a cluster."""

    def __init__(self) -> None:
        super().__init__()
        iam, eks, ec2 = client("iam"), client("eks", OTHER), client("ec2", OTHER)
        trusted(client, "cluster", CLUSTER_TRUST)
        pods = trusted(client, "pods", POD_TRUST)
        role(iam, "pods", "pods.eks.amazonaws.com")
        subnets = [subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"]]
        eks.create_cluster(
            name="research",
            roleArn=f"arn:aws:iam::{ACCOUNT}:role/cluster",
            resourcesVpcConfig={"subnetIds": subnets},
            accessConfig={"authenticationMode": "API"},
        )
        eks.create_pod_identity_association(
            clusterName="research", namespace="training", serviceAccount="training", roleArn=pods
        )
        ecr = client("ecr", HOME)
        ecr.create_repository(repositoryName="traingrid/orchestrator")
        process_images.push(ecr, "traingrid/orchestrator", "1", ORCHESTRATOR)
        self.deployment = replace(
            self.deployment, pod_image=f"{ACCOUNT}.dkr.ecr.{HOME}.amazonaws.com/traingrid/orchestrator:1"
        )
        self.image = image(client("ecr", OTHER), "train-in-pods", TRAIN)
        self.storage.write(S3Uri(self.data(OTHER), "x/shard"), b"x", "application/x")
        settings = self.deployment.grid.regions[OTHER].eks
        assert settings
        for manifest in access_objects("traingrid", settings):
            self._apply(manifest)

    def job(self, **fields: Any) -> Job:
        job = sample_job(OTHER).model_copy(update={"image": fields.pop("image", self.image), "backends": ("eks",)})
        options = {name: str(value) for name, value in fields.pop("hyperparameters", {"seconds": 1}).items()}
        return job.model_copy(update={"hyperparameters": options, **fields})

    @property
    def cluster(self) -> Client:
        return ClusterJobs(self.deployment, OTHER, client).client

    def _apply(self, manifest: dict[str, Any]) -> None:
        group = manifest["apiVersion"]
        kind = Kind(version=group, kind=manifest["kind"], plural=f"{manifest['kind'].lower()}s")
        path = kind.path("training") if "namespace" in manifest["metadata"] else "/api/v1/namespaces"
        self.cluster._json("POST", path, None, json.dumps(manifest).encode())

    def _deployment(self) -> Deployment:
        deployment = super()._deployment()
        settings = yaml.safe_load(deployment.grid.to_environment())
        eks = {"cluster": "research", "namespace": "training", "service_account": "training"}
        settings["regions"] = {HOME: None, OTHER: {"eks": eks}}
        return replace(deployment, grid=GridSettings.model_validate(settings))


def submitted(account: ClusterAccount, request: pytest.FixtureRequest, **fields: Any) -> Line:
    number = zlib.crc32(request.node.name.encode())
    return Line(account, f"{number:08x}", account.job(**fields))


def train_without_a_child(line: Line) -> None:
    """Let a child start a line's training job, and kill the child once it trains."""
    child = line.child()
    try:
        wait_until(lambda: line.state() and line.item().phase == "Training")
    finally:
        child.kill()
        child.communicate()


def objects(account: ClusterAccount, line: Line) -> list[dict[str, Any]]:
    return list(account.cluster.all(JOB, labels=f"traingrid/submission={line.submission}"))


def pods(account: ClusterAccount, line: Line) -> list[dict[str, Any]]:
    """Return the pods of a line's first attempt."""
    return list(account.cluster.all(POD, labels=f"traingrid/name={line.name}-1"))


def pods_of(account: ClusterAccount, line: Line) -> list[dict[str, Any]]:
    """Return the pods of a line's first attempt, by their names."""
    return [pod for pod in account.cluster.all(POD) if pod["metadata"]["name"].startswith(f"{line.name}-1-")]


def violations(account: ClusterAccount, line: Line) -> list[str]:
    """Return the violations of the audit, apart from that of a submission without an array."""
    all_violations = audit(account.world(line.submission, at_rest=True))
    return [violation.what for violation in all_violations if violation.invariant != "I1"]


def released(account: ClusterAccount, line: Line) -> bool:
    """Run a pass, and return True if no finalizer is left."""
    account.reconciler().run_pass()
    return not any("finalizers" in job["metadata"] for job in objects(account, line))
