"""Clusters of EKS in grid.yaml: their settings, volumes and the isolation that they cannot provide."""

from pathlib import Path

import pytest

from tests.support.sample_grid import changed, problems
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings

WEST = "{data_buckets: [campaigns-pdx]}"


def loaded(folder: Path, text: str) -> GridSettings:
    (folder / "grid.yaml").write_text(text)
    return load_grid(folder / "grid.yaml")


def test_a_cluster_needs_only_its_name(tmp_path: Path) -> None:
    region = loaded(tmp_path, changed(WEST, "{eks: {cluster: research}}")).regions["us-west-2"]
    assert region.eks is not None
    assert (region.eks.namespace, region.eks.service_account, region.eks.kind) == ("traingrid", "traingrid", "job")
    assert (region.backend, region.backends) == ("sagemaker", ("sagemaker", "eks"))


def test_a_region_without_a_cluster_has_only_sagemaker(grid: GridSettings) -> None:
    assert {region.backends for region in grid.regions.values()} == {("sagemaker",)}


@pytest.mark.parametrize("bucket", ["campaigns-pdx", "traingrid-data-123456789012-us-west-2"])
def test_a_volume_is_of_a_data_bucket_of_its_region(tmp_path: Path, bucket: str) -> None:
    cluster = f"{{data_buckets: [campaigns-pdx], eks: {{cluster: a, s3_volumes: {{{bucket}: claim}}}}}}"
    assert loaded(tmp_path, changed(WEST, cluster)).regions["us-west-2"].eks


def test_a_file_system_with_a_volume_needs_no_subnets(tmp_path: Path) -> None:
    volume = "eks: {cluster: a, file_system_volumes: {fs-01234567: claim}}"
    assert loaded(tmp_path, changed(WEST, f"{{file_systems: {{fs-01234567: EFS}}, {volume}}}"))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            "{backend: eks}",
            "regions.us-west-2.backend: 'eks' is not allowed: backend eks requires the Region's cluster",
        ),
        ("{backend: ecs}", "regions.us-west-2.backend: 'ecs' is not allowed: it must be 'sagemaker' or 'eks'"),
        ("{eks: {}}", "regions.us-west-2.eks.cluster: "),
        ("{eks: {cluster: a, namespace: Team}}", "regions.us-west-2.eks.namespace: 'Team' is not allowed"),
        ("{eks: {cluster: a, s3_volumes: {other: b}}}", "s3_volumes has other, which is no data bucket of this Region"),
        (
            "{eks: {cluster: a, s3_volumes: {traingrid-data-123456789012-us-east-1: b}}}",
            "which is no data bucket of this Region; add it to data_buckets",
        ),
        (
            "{eks: {cluster: a, file_system_volumes: {fs-01234567: b}}}",
            "file_system_volumes has fs-01234567, which file_systems of the Region does not list",
        ),
        (
            "{file_systems: {fs-01234567: EFS}, eks: {cluster: a}}",
            "training jobs mount a file system through a VPC; set subnets and security_groups, too",
        ),
        ("{eks: {cluster: a, tolerations: [{key: a, effect: Never}]}}", "regions.us-west-2.eks.tolerations.0.effect"),
        (
            "{eks: {cluster: a, node_selector: {node.kubernetes.io/instance-type: p5.48xlarge}}}",
            "node.kubernetes.io/instance-type is the instance_type of each line; remove it from node_selector",
        ),
        ("{eks: {cluster: a, node_selector: {-team: a}}}", "regions.us-west-2.eks.node_selector"),
        ("{eks: {cluster: a, queue: b, queue_priority: High}}", "regions.us-west-2.eks.queue_priority: 'High'"),
    ],
)
def test_invalid_settings_of_a_cluster_are_refused(tmp_path: Path, settings: str, sentence: str) -> None:
    found = "\n".join(problems(tmp_path, changed(WEST, settings)))
    assert sentence in found


def test_a_grid_with_a_cluster_cannot_isolate_its_jobs_from_the_network(tmp_path: Path) -> None:
    text = changed(WEST, "{eks: {cluster: a}}").replace("images:", "training: {network_isolation: true}\nimages:")
    (found,) = problems(tmp_path, text)
    assert found == (
        "grid.yaml:6: training.network_isolation: true is not allowed: pods of the cluster in us-west-2 cannot be "
        "isolated from S3; remove `eks` there, or write false."
    )


def test_a_network_without_a_route_to_the_cluster_is_refused_without_an_example_of_it(tmp_path: Path) -> None:
    text = changed(f"  us-east-1:\n  us-west-2: {WEST}", "  us-east-1: {eks: {cluster: a}}")
    (found,) = problems(tmp_path, text.replace("images:", "network: private\nimages:"))
    assert found.startswith("grid.yaml:5: network: 'private' is not allowed: ")
    assert found.endswith("; use `public`, or an existing network with a route to the cluster and to the API of EKS.")


def test_a_backend_without_a_cluster_is_refused_with_the_setting_that_it_needs(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, changed(WEST, "{backend: eks}"))
    assert found.endswith("backend eks requires the Region's cluster; write `eks: {cluster: NAME}`.")
