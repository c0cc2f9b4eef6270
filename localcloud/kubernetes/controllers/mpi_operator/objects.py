"""Objects: the objects that the operator creates for an MPIJob.

Source: https://github.com/kubeflow/mpi-operator/blob/v0.8.2/pkg/controller/mpi_job_controller.go (newJobService,
newConfigMap, newSSHAuthSecret, newWorker, newLauncherJob).
"""

from __future__ import annotations

import base64
import copy
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from localcloud.kubernetes.client import controller_reference
from localcloud.kubernetes.resources import MPI_JOB_RESOURCE

if TYPE_CHECKING:
    from localcloud.kubernetes.store import Object

JOB_NAME, REPLICA_INDEX = "training.kubeflow.org/job-name", "training.kubeflow.org/replica-index"
_OPERATOR, _ROLE = "training.kubeflow.org/operator-name", "training.kubeflow.org/job-role"
_OPEN_MPI = "OpenMPI"
_VARIABLES = {
    _OPEN_MPI: {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    },
    "Intel": {
        "I_MPI_HYDRA_HOST_FILE": "/etc/mpi/hostfile",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
    },
    "MPICH": {"HYDRA_HOST_FILE": "/etc/mpi/hostfile", "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10"},
}
_SLOTS = {_OPEN_MPI: "OMPI_MCA_orte_set_default_slots", "Intel": "I_MPI_PERHOST"}


def replicas(job: Object) -> int:
    """Return the number of workers."""
    worker = job["spec"]["mpiReplicaSpecs"].get("Worker")
    return int(worker.get("replicas") or 0) if worker else 0


def launches_as_worker(job: Object) -> bool:
    """Return True if the launcher is a worker, too."""
    return bool(job["spec"].get("runLauncherAsWorker"))


def worker_name(job: Object, index: int) -> str:
    """Return the name of a worker."""
    return f"{job['metadata']['name']}-worker-{index}"


def launcher_name(job: Object) -> str:
    """Return the name of the launcher."""
    return f"{job['metadata']['name']}-launcher"


def service(job: Object) -> Object:
    """Return the headless Service of all pods."""
    name = job["metadata"]["name"]
    spec = {"clusterIP": "None", "selector": {_OPERATOR: "mpi-operator", JOB_NAME: name}}
    return {**_owned_metadata(job, name), "spec": {**spec, "publishNotReadyAddresses": launches_as_worker(job)}}


def config_map(job: Object, running: list[str]) -> Object:
    """Return the file of hosts, and the script that prints the running ones."""
    spec, slots = job["spec"], job["spec"].get("slotsPerWorker", 1)
    first = [launcher_name(job)] if launches_as_worker(job) else []
    hosts = [*first, *(worker_name(job, index) for index in range(replicas(job)))]
    form = "{} slots={}\n" if spec["mpiImplementation"] == _OPEN_MPI else "{}:{}\n"
    lines = [form.format(_address(job, host), slots) for host in hosts]
    script = "".join(f"echo {_address(job, host)}\n" for host in [*first, *sorted(running)])
    data = {"hostfile": "".join(lines), "discover_hosts.sh": f"#!/bin/sh\n{script}"}
    return {**_owned_metadata(job, f"{job['metadata']['name']}-config"), "data": data}


def secret(job: Object) -> Object:
    """Return a new key pair for ssh."""
    key = ec.generate_private_key(ec.SECP521R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    texts = {"ssh-privatekey": private, "ssh-publickey": public + b"\n"}
    data = {name: base64.b64encode(text).decode() for name, text in texts.items()}
    return {**_owned_metadata(job, f"{job['metadata']['name']}-ssh"), "type": "kubernetes.io/ssh-auth", "data": data}


def worker(job: Object, index: int) -> Object:
    """Return a worker pod."""
    name = job["metadata"]["name"]
    template = _template(job, "Worker", worker_name(job, index))
    number = index + 1 if launches_as_worker(job) else index
    template["metadata"]["labels"][REPLICA_INDEX] = str(number)
    spec = template["spec"]
    search = f"{name}.{job['metadata']['namespace']}.svc.cluster.local"
    spec.setdefault("dnsConfig", {}).setdefault("searches", []).append(search)
    container = spec["containers"][0]
    if not container.get("command") and not container.get("args"):
        container["command"] = ["/usr/sbin/sshd", "-De"]
    _add_variables(container, {"K_MPI_JOB_ROLE": "worker"})
    _mount_keys(job, spec)
    owned = _owned_metadata(job, worker_name(job, index))["metadata"]
    return {"metadata": {**owned, **template["metadata"]}, "spec": spec}


def launcher(job: Object) -> Object:
    """Return the Job of the launcher."""
    policy = job["spec"]["runPolicy"]
    names = ("ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit")
    spec = {name: policy[name] for name in names if policy.get(name) is not None}
    spec |= {"podReplacementPolicy": "Failed", "template": launcher_template(job)}
    if policy.get("suspend"):
        spec["suspend"] = True
    return {**_owned_metadata(job, launcher_name(job)), "spec": spec}


def launcher_template(job: Object) -> Object:
    """Return the template of the launcher's pod."""
    template = _template(job, "Launcher", launcher_name(job))
    if launches_as_worker(job):
        template["metadata"]["labels"][REPLICA_INDEX] = "0"
    kind, spec = job["spec"]["mpiImplementation"], template["spec"]
    container = spec["containers"][0]
    _add_variables(container, {"K_MPI_JOB_ROLE": "launcher", **_VARIABLES[kind]})
    if kind in _SLOTS:
        _add_variables(container, {_SLOTS[kind]: str(job["spec"]["slotsPerWorker"])})
    if not launches_as_worker(job):
        _add_variables(container, {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""})
    _mount_keys(job, spec)
    items = [{"key": "hostfile", "path": "hostfile", "mode": 0o444}]
    items.append({"key": "discover_hosts.sh", "path": "discover_hosts.sh", "mode": 0o555})
    source = {"name": f"{job['metadata']['name']}-config", "items": items}
    spec.setdefault("volumes", []).append({"name": "mpi-job-config", "configMap": source})
    container.setdefault("volumeMounts", []).append({"name": "mpi-job-config", "mountPath": "/etc/mpi"})
    return template


def _template(job: Object, role: str, hostname: str) -> dict[str, Any]:
    """Return a copy of the template of a role, with the labels and the host name."""
    replica_spec = job["spec"]["mpiReplicaSpecs"][role]
    template = copy.deepcopy(replica_spec["template"])
    metadata = template.get("metadata") or {}
    operator_labels = {_OPERATOR: "mpi-operator", JOB_NAME: job["metadata"]["name"], _ROLE: role.lower()}
    labels = {**(metadata.get("labels") or {}), **operator_labels}
    annotations = metadata.get("annotations") or {}
    template["metadata"] = {"labels": labels}
    if annotations:
        template["metadata"]["annotations"] = annotations
    policy = replica_spec.get("restartPolicy") or "Never"
    template["spec"] |= {
        "hostname": hostname,
        "subdomain": job["metadata"]["name"],
        "restartPolicy": "Never" if policy == "ExitCode" else policy,
    }
    return dict(template)


def _add_variables(container: dict[str, Any], variables: dict[str, str]) -> None:
    entries = container.setdefault("env", [])
    for name, value in variables.items():
        entries.append({"name": name, "value": value} if value else {"name": name})


def _mount_keys(job: Object, spec: dict[str, Any]) -> None:
    path = job["spec"]["sshAuthMountPath"]
    files = {"id_rsa": "ssh-privatekey", "id_rsa.pub": "ssh-publickey", "authorized_keys": "ssh-publickey"}
    source: dict[str, Any] = {"secretName": f"{job['metadata']['name']}-ssh"}
    source["items"] = [{"key": key, "path": file} for file, key in files.items()]
    if path == "/root/.ssh":
        source["defaultMode"] = 0o600
    spec.setdefault("volumes", []).append({"name": "ssh-auth", "secret": source})
    spec["containers"][0].setdefault("volumeMounts", []).append({"name": "ssh-auth", "mountPath": path})


def _owned_metadata(job: Object, name: str) -> Object:
    namespace = job["metadata"]["namespace"]
    metadata = {"name": name, "namespace": namespace, "labels": {"app": job["metadata"]["name"]}}
    return {"metadata": {**metadata, "ownerReferences": [controller_reference(MPI_JOB_RESOURCE, job)]}}


def _address(job: Object, host: str) -> str:
    return f"{host}.{job['metadata']['name']}.{job['metadata']['namespace']}.svc"
