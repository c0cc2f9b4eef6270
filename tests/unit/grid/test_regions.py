"""Grid Regions: `regions` and `home` in grid.yaml, with buckets, VPCs and keys."""

import re
from pathlib import Path

import boto3
import pytest
from botocore.loaders import Loader

from tests.support.sample_grid import KEY, changed, problems
from traingrid.grid.file import load_grid, sagemaker_regions
from traingrid.grid.model import GridSettings
from traingrid.grid.training import MAX_SECURITY_GROUPS, MAX_SUBNETS

TWICE = """\
  us-east-1: &a
    {subnets: [subnet-01234567], security_groups: [sg-01234567], file_systems: {fs-01234567: EFS}}
  us-west-2: *a"""


def test_the_limits_of_a_vpc_and_the_forms_of_its_ids_are_sagemakers() -> None:
    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    assert (shapes["Subnets"]["max"], shapes["VpcSecurityGroupIds"]["max"]) == (MAX_SUBNETS, MAX_SECURITY_GROUPS)
    for shape, known in (("SubnetId", "subnet-0123456789abcdef0"), ("SecurityGroupId", "sg-0123456789abcdef0")):
        assert re.fullmatch(shapes[shape]["pattern"], known)
        assert len(known) <= shapes[shape]["max"]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("data_buckets", "buckets", "grid.yaml:5: regions.us-west-2.buckets: there is no such key. Did you mean data_"),
        ("us-west-2:", "us-wets-2:", "grid.yaml:5: regions.us-wets-2: 'us-wets-2' is not allowed: no Region with this"),
        ("us-west-2:", "us-wets-2:", "offers SageMaker. Did you mean us-west-2?"),
        ("us-west-2:", "cn-north-1:", "regions.cn-north-1: 'cn-north-1' is not allowed: the Region is in another AWS"),
        (
            "[campaigns-pdx]",
            "[Campaigns]",
            '[a-z0-9]$. Write for example `data_buckets: ["my-campaigns-us-west-2"]`: Buck',
        ),
        ("[campaigns-pdx]", "[Campaigns]", "grid.yaml:5: regions.us-west-2.data_buckets.0: 'Campaigns' is not allowed"),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{residency: [eu]}",
            "the data of us-west-2 is in us-west-2, which residency does not allow; add it, or its geography",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{residency: [us, europe]}",
            "'europe' is neither a Region nor one of the geographies af, ap, ca, eu, il, me, mx, sa, us",
        ),
        ("  us-east-1:", "  us-east-1: {data_buckets: [campaigns-pdx]}", "but a bucket is in one Region"),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{subnets: [subnet-0123456789abcdef0]}",
            "grid.yaml:5: regions.us-west-2.subnets: a VPC requires both subnets and security_groups; security_groups",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{security_groups: [sg-01234567]}",
            "regions.us-west-2.security_groups: a VPC requires both subnets and security_groups; subnets is missing",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{subnets: [subnet-abc], security_groups: [sg-01234567]}",
            "grid.yaml:5: regions.us-west-2.subnets.0: 'subnet-abc' is not allowed: it must have the form ^subnet-(",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{subnets: [subnet-01234567], security_groups: [vpc-01234567]}",
            "regions.us-west-2.security_groups.0: 'vpc-01234567' is not allowed: it must have the form ^sg-(",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            f"{{subnets: [{', '.join(f'subnet-{n:08x}' for n in range(17))}], security_groups: [sg-01234567]}}",
            "regions.us-west-2.subnets: there must be at most 16",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            f"{{subnets: [subnet-01234567], security_groups: [{', '.join(f'sg-{n:08x}' for n in range(6))}]}}",
            "regions.us-west-2.security_groups: there must be at most 5",
        ),
        (
            "  us-east-1:\n  us-west-2: {data_buckets: [campaigns-pdx]}",
            TWICE,
            "fs-01234567 is also under us-east-1, but a file system is in one Region",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{file_systems: {fs-01234567: EFS}}",
            "grid.yaml:5: regions.us-west-2.file_systems: training jobs mount a file system through a VPC; set subnets",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{subnets: [subnet-01234567], security_groups: [sg-01234567], file_systems: {efs-1: EFS}}",
            "regions.us-west-2.file_systems.efs-1: 'efs-1' is not allowed: it must have the form ^fs-",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{subnets: [subnet-01234567], security_groups: [sg-01234567], file_systems: {fs-01234567: NFS}}",
            "regions.us-west-2.file_systems.fs-01234567: 'NFS' is not allowed: it must be 'EFS' or 'FSxLustre'",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{subnets: [subnet-01234567, subnet-01234567], security_groups: [sg-01234567]}",
            "regions.us-west-2.subnets: each may be listed only once",
        ),
        ("[campaigns-pdx]", f"[campaigns-pdx], data_keys: ['{KEY}']", "a key decrypts only in its own Region"),
        (
            "[campaigns-pdx]",
            "[campaigns-pdx], data_keys: ['arn:aws:kms:us-west-2:111122223333:alias/mine']",
            "regions.us-west-2.data_keys.0: 'arn:aws:kms:us-west-2:111122223333:alias/mine' is not allowed",
        ),
        ("  us-east-1:", "  us-west-2:", "regions.us-west-2: this key is already on line 4"),
    ],
)
def test_a_mistake_in_a_region_is_reported_with_line_rule_and_fix(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    assert sentence in "\n".join(problems(tmp_path, changed(old, new)))


def test_regions_are_those_of_sagemaker_without_a_call_to_aws(tmp_path: Path) -> None:
    assert "Did you mean ap-southeast-2?" in problems(tmp_path, changed("us-west-2", "ap-southest-2"))[0]


def test_the_regions_are_those_with_sagemaker_in_boto3() -> None:
    assert sagemaker_regions() == tuple(boto3.Session(region_name="us-east-1").get_available_regions("sagemaker"))


def test_adding_a_region_takes_one_line(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(changed("  us-east-1:\n", "  us-east-1:\n  sa-east-1:\n"))
    assert list(load_grid(tmp_path / "grid.yaml").regions) == ["us-east-1", "sa-east-1", "us-west-2"]


def test_home_need_not_train(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(changed("home: us-east-1", "home: eu-west-1"))
    assert load_grid(tmp_path / "grid.yaml").home == "eu-west-1"


def test_jobs_read_the_grids_bucket_and_those_of_grid_yaml(grid: GridSettings) -> None:
    assert grid.data_buckets("123456789012", "us-east-1") == ("traingrid-data-123456789012-us-east-1",)
    assert grid.data_buckets("123456789012", "us-west-2")[1:] == ("campaigns-pdx",)


@pytest.mark.parametrize("residency", ["[us]", "[us-west-2]", "[us-west-2, eu]"])
def test_a_region_limits_where_its_data_may_be(tmp_path: Path, residency: str) -> None:
    (tmp_path / "grid.yaml").write_text(changed("{data_buckets: [campaigns-pdx]}", f"{{residency: {residency}}}"))
    grid = load_grid(tmp_path / "grid.yaml")
    assert grid.may_hold("us-west-2", "us-west-2")
    assert grid.may_hold("us-east-1", "us-west-2") == (residency == "[us]")
    assert grid.may_hold("us-west-2", "us-east-1")
    assert GridSettings.from_environment(grid.to_environment()) == grid
    assert grid.copy_sources("us-east-1") == []
    moving = grid.model_copy(update={"moves": True})
    assert moving.copy_sources("us-west-2") == ["us-east-1"]
    assert moving.copy_sources("us-east-1") == (["us-west-2"] if residency == "[us]" else [])


def test_a_grid_in_which_data_could_leave_its_residency_in_two_copies_is_refused(tmp_path: Path) -> None:
    text = changed("  us-east-1:", "  eu-west-1: {residency: [eu]}\n  eu-central-1:\n  us-east-1:")
    (problem,) = problems(tmp_path, text + "moves: true\n")
    assert "data of eu-west-1 could be copied to eu-central-1 and from there to us-" in problem
    assert "give eu-central-1 a residency within eu" in problem
    limited = text.replace("eu-central-1:", "eu-central-1: {residency: [eu-central-1]}") + "moves: true\n"
    for accepted in (text, limited):
        (tmp_path / "grid.yaml").write_text(accepted)
        assert load_grid(tmp_path / "grid.yaml").may_hold("eu-central-1", "eu-west-1")
