"""Resources: the requests of a pod agree with EC2's descriptions of the instance types."""

import pytest

from tests.support.eks_jobs import eks_job, training_object
from tests.support.instance_types import described, training_types
from tests.support.rows import each_row
from traingrid.backends.eks import resources as module
from traingrid.backends.eks.pod_template import pod_template
from traingrid.backends.eks.resources import cpus, resources

KNOWN = [name for name in training_types() if described(name)]
LARGER = {"ml.c4.8xlarge"}


@each_row("name", zip(KNOWN, KNOWN, strict=True))
def test_the_number_of_cpus_follows_from_the_size(name: str) -> None:
    real = described(name)["VCpuInfo"]["DefaultVCpus"]
    assert cpus(name) == real or (name in LARGER and cpus(name) < real)


@each_row("name", zip(KNOWN, KNOWN, strict=True))
def test_a_node_has_room_for_the_request_and_for_only_one_training_job(name: str) -> None:
    found = resources(eks_job(instance_type=name))
    requests, millicores = found["requests"], 1000 * described(name)["VCpuInfo"]["DefaultVCpus"]
    requested = int(requests["cpu"].removesuffix("m"))
    if "limits" in found:  # the accelerators, all of which one training job requests
        assert requested <= 0.5 * millicores / 2, "a node with one thread for each core has room, too"
    else:
        assert millicores / 2 < requested <= 0.75 * millicores
    if "memory" in requests:
        memory = described(name)["MemoryInfo"]["SizeInMiB"]
        assert int(requests["memory"].removesuffix("Mi")) <= 0.65 * memory


@pytest.mark.parametrize("of_line", [None, "urgent"])
@pytest.mark.parametrize("of_region", [None, "gpus"])
def test_the_volume_is_requested_of_the_nodes_disk_unless_a_queue_admits_the_job(
    of_line: str | None, of_region: str | None
) -> None:
    wanted = training_object(eks_job(volume_gb=70, eks_queue=of_line), queue=of_region)
    requests = pod_template(wanted)["spec"]["containers"][0]["resources"]["requests"]
    assert requests.get("ephemeral-storage") == (None if of_line or of_region else "70Gi")


@pytest.mark.parametrize("name", module._EFA_INTERFACES)
def test_all_efa_interfaces_are_requested_for_several_hosts(name: str) -> None:
    real = described(name)["NetworkInfo"]["EfaInfo"]["MaximumEfaInterfaces"]
    several = resources(eks_job(instance_type=name, instance_count=2))["limits"]
    assert several["vpc.amazonaws.com/efa"] == str(real)
    assert "vpc.amazonaws.com/efa" not in resources(eks_job(instance_type=name)).get("limits", {})


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("ml.p5.48xlarge", {"nvidia.com/gpu": "8"}),
        ("ml.g5.xlarge", {"nvidia.com/gpu": "1"}),
        ("ml.trn1.32xlarge", {"aws.amazon.com/neuron": "16"}),
        ("ml.m5.large", None),
    ],
)
def test_accelerators_are_requested_by_their_device_plugin(name: str, limits: dict[str, str] | None) -> None:
    assert resources(eks_job(instance_type=name)).get("limits") == limits
