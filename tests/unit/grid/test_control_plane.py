"""Grid control plane: `training`, `orchestrator`, `network`, `encryption` and `log_retention_days` in grid.yaml."""

from pathlib import Path

import pytest
from botocore.loaders import Loader

from tests.support.sample_grid import KEY, changed, problems
from traingrid.grid.file import load_grid
from traingrid.grid.model import LOG_RETENTION_DAYS, GridSettings

OWN = "vpc: vpc-0a1b2c3d, subnets: [subnet-0a1b2c3d]"


def test_training_defaults_encrypt_without_isolation_or_time_limit(grid: GridSettings) -> None:
    assert grid.training.encrypt_traffic
    assert not grid.training.network_isolation
    assert grid.training.max_runtime == 28 * 24 * 3600
    assert grid.regions["us-east-1"].subnets == grid.regions["us-east-1"].security_groups == ()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("images:", "training: {max_runtime: 29d}\nimages:", "training.max_runtime: "),
        ("images:", "training: {max_runtime: 29d}\nimages:", "it must be less than or equal to 2419200"),
        (
            "images:",
            "training: {max_runtime: 23h}\nimages:",
            "grid.yaml:6: training.max_runtime: '23h' is not allowed: `job` has a longer max_runtime, 86400s,",
        ),
        ("images:", "training: {encrypt: false}\nimages:", "training.encrypt: there is no such key. Did you mean encr"),
        (
            "images:",
            'training: {network_isolation: "yes"}\nimages:',
            "training.network_isolation: 'yes' is not allowed",
        ),
        ("images:", "training: {warm_pools: true}\nimages:", "training.warm_pools: there is no such key."),
        ("images:", "orchestrator: {vcpu: 0.3}\nimages:", "orchestrator.vcpu: 0.3 is not allowed: Fargate offers 0.25"),
        ("images:", "orchestrator: {memory_mib: 9}\nimages:", "with 0.25 vCPU Fargate offers 512, 1024, 2048 MiB"),
        ("images:", "log_retention_days: 12\nimages:", "CloudWatch Logs retains logs for 1, 3, 5"),
        ("images:", "catalog: mysql://host/db\nimages:", "a catalog is `none`, `dsql`, sqlite:///FILE, postgresql://"),
        ("images:", "catalog: catalog.db\nimages:", "a catalog is `none`, `dsql`, sqlite:///FILE, postgresql://"),
        (
            "images:",
            "catalog: postgresql://me:secret@host/db\nimages:",
            "catalog: 'postgresql://me:***@host/db' is not allowed: a password must not be in grid.yaml",
        ),
        ("images:", "catalog:\nimages:", "catalog"),
        ("images:", "catalog: dsql\nencryption: kms\nimages:", "`encryption: kms` requires another catalog"),
        (
            "images:",
            "network: privat\nimages:",
            "6: network: 'privat' is not allowed: it must be 'public', 'private' or",
        ),
        ("images:", "network: existing\nimages:", "network.vpc: an existing network needs its vpc and subnets"),
        (
            "images:",
            "network: {kind: existing, vpc: vpc-0a1b2c3d}\nimages:",
            "network.subnets: an existing network needs the subnets that children run in",
        ),
        (
            "images:",
            "network: {kind: private, subnets: [subnet-0a1b2c3d]}\nimages:",
            "network.subnets: this key requires `kind: existing`; this network is private",
        ),
        (
            "images:",
            "network: {kind: private, zones: [us-east-1a]}\nimages:",
            "network.zones: zones must name two different availability zones",
        ),
        (
            "images:",
            "network: {kind: private, zones: [eu-west-1a, eu-west-1b]}\nimages:",
            "network.zones: zones must be in the home Region, such as us-east-1a",
        ),
        (
            "images:",
            "network: {kind: existing, vpc: vpc-0a1b2c3d, subnets: [subnet-0a1b2c3d], zones: [us-east-1a]}\nimages:",
            "network.zones: an existing network has the zones of its subnets",
        ),
        (
            "images:",
            "network: {kind: private, reconciler: true}\nimages:",
            "network.reconciler: true is not allowed: this key requires `kind: existing`; this network is private",
        ),
        (
            "images:",
            f"network: {{kind: existing, {OWN}, public_addresses: true, reconciler: true}}\nimages:",
            "network.reconciler: true is not allowed: the reconciler cannot have a public address",
        ),
        ("images:", "network: {vpc: vpc-1}\nimages:", "network.vpc: 'vpc-1' is not allowed: it must have the form"),
        ("images:", "encryption: kmss\nimages:", "6: encryption: 'kmss' is not allowed: it must be 's3' or 'kms'"),
        (
            "images:",
            f"encryption: {{kind: kms, keys: {{us-east-1: '{KEY}'}}}}\nimages:",
            "encryption.keys: no key for us-west-2; specify one for every Region, or none",
        ),
        (
            "images:",
            f"encryption: {{kind: kms, keys: {{us-west-2: '{KEY}'}}}}\nimages:",
            "encryption.keys: the key of us-west-2 is in us-east-1, but a key encrypts only in its own Region",
        ),
        (
            "images:",
            f"encryption: {{keys: {{us-east-1: '{KEY}'}}}}\nimages:",
            "encryption.keys: keys have no effect with kind s3; write `kind: kms`, or remove keys",
        ),
        (
            "images:",
            "abandoned_regions: [us-west-2]\nimages:",
            "abandoned_regions: us-west-2 is also in `regions`; remove it from one of them",
        ),
    ],
)
def test_a_control_plane_mistake_is_reported_with_line_rule_and_fix(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    assert sentence in "\n".join(problems(tmp_path, changed(old, new)))


def test_log_retention_accepts_cloudwatchs_values() -> None:
    described = Loader().load_service_model("logs", "service-2")["shapes"]["Days"]["documentation"]
    assert not [days for days in LOG_RETENTION_DAYS if str(days) not in described]


def test_training_settings_survive_the_environment(tmp_path: Path) -> None:
    vpc = "{subnets: [subnet-01234567], security_groups: [sg-01234567]}"
    training = "training: {max_runtime: 2d, network_isolation: true, encrypt_traffic: false}\n"
    (tmp_path / "grid.yaml").write_text(changed("{data_buckets: [campaigns-pdx]}", vpc) + training)
    grid = load_grid(tmp_path / "grid.yaml")
    assert grid.regions["us-west-2"].subnets == ("subnet-01234567",)
    assert grid.training.max_runtime == 172_800
    assert GridSettings.from_environment(grid.to_environment()) == grid
