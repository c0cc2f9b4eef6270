"""A good grid.yaml is a grid; a bad one is every one of its mistakes, with line, rule and what to write."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.loaders import Loader
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from traingrid.fields import parse_duration
from traingrid.grid import LOG_RETENTION_DAYS, Grid, GridError, load_grid
from traingrid.grid_file import nearest, sagemaker_regions
from traingrid.grid_job import MPI_OPTIONS
from traingrid.grid_training import MAX_SECURITY_GROUPS, MAX_SUBNETS

ROOT = Path(__file__).parents[2]
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
GOOD = """\
name: traingrid
home: us-east-1
regions:
  us-east-1:
  us-west-2: {data_buckets: [campaigns-pdx]}
images:
  resnet: {repository: training, tag: "1"}
job:
  image: resnet
  instance_type: ml.g5.48xlarge
"""


def problems(folder: Path, text: str) -> tuple[str, ...]:
    """Return what load_grid says of a file with this text, without the folder."""
    path = folder / "grid.yaml"
    path.write_text(text)
    with pytest.raises(GridError) as raised:
        load_grid(path)
    return tuple(sentence.removeprefix(f"{folder}/") for sentence in raised.value.problems)


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    (tmp_path / "grid.yaml").write_text(GOOD)
    return load_grid(tmp_path / "grid.yaml")


@pytest.mark.parametrize("path", ["grid.yaml", "examples/digits/grid.yaml"])
def test_the_grids_of_this_repository_are_good_and_name_the_same_place(path: str) -> None:
    grid = load_grid(ROOT / path)
    assert grid.home == "us-east-1"
    assert list(grid.regions) == ["us-east-1", "us-west-2", "eu-west-1", "eu-central-1"]
    assert grid.name == load_grid(ROOT / "grid.yaml").name


def test_what_is_left_out_has_a_default(grid: Grid) -> None:
    assert grid.job.max_runtime == 24 * 3600
    assert grid.job.mpi_options == MPI_OPTIONS
    assert grid.job.channels == ("train", "validation")
    assert (grid.orchestrator.vcpu, grid.orchestrator.memory_mib, grid.orchestrator.max_vcpus) == (0.25, 512, 64)


def test_a_training_job_is_encrypted_and_neither_isolated_nor_shortened_unless_the_grid_says_so(grid: Grid) -> None:
    assert grid.training.encrypt_traffic
    assert not grid.training.network_isolation
    assert grid.training.max_runtime == 28 * 24 * 3600
    assert grid.regions["us-east-1"].subnets == grid.regions["us-east-1"].security_groups == ()


def test_the_limits_of_a_vpc_and_the_forms_of_its_ids_are_sagemakers() -> None:
    shapes = Loader().load_service_model("sagemaker", "service-2")["shapes"]
    assert (shapes["Subnets"]["max"], shapes["VpcSecurityGroupIds"]["max"]) == (MAX_SUBNETS, MAX_SECURITY_GROUPS)
    for shape, known in (("SubnetId", "subnet-0123456789abcdef0"), ("SecurityGroupId", "sg-0123456789abcdef0")):
        assert re.fullmatch(shapes[shape]["pattern"], known)
        assert len(known) <= shapes[shape]["max"]


def test_the_default_mpi_options_are_these(grid: Grid) -> None:
    assert grid.job.mpi_options == (
        "-mca btl_vader_single_copy_mechanism none -x NCCL_MIN_NRINGS=8 -x NCCL_LAUNCH_MODE=PARALLEL"
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("home:", "homee:", "grid.yaml:2: homee: there is no such key. Did you mean home?"),
        ("instance_type:", "instance_typ:", "grid.yaml:10: job.instance_typ: there is no such key. Did you mean inst"),
        ("data_buckets", "buckets", "grid.yaml:5: regions.us-west-2.buckets: there is no such key. Did you mean data_"),
        ("tag:", "tags:", "grid.yaml:7: images.resnet.tags: there is no such key. Did you mean tag?"),
        ("job:\n", "job:\n  qqqq: 1\n", "grid.yaml:9: job.qqqq: there is no such key. There are: image, instance_type"),
        ("home: us-east-1\n", "", "home: this key is missing. Write for example `home: us-east-1`: Region of the con"),
        ("  image: resnet\n", "", "grid.yaml:8: job.image: this key is missing. Write for example `image: resnet`"),
        ("home: us-east-1", "home: us-esat-1", "grid.yaml:2: home: 'us-esat-1' is not allowed: no Region of that name"),
        ("us-west-2:", "us-wets-2:", "grid.yaml:5: regions.us-wets-2: 'us-wets-2' is not allowed: no Region of that n"),
        ("us-west-2:", "us-wets-2:", "offers SageMaker. Did you mean us-west-2?"),
        ("image: resnet\n", "image: resnett\n", "grid.yaml:9: job.image: 'resnett' is not allowed: `images` has no s"),
        ("image: resnet\n", "image: resnett\n", "Did you mean resnet?"),
        (
            "name: traingrid",
            "name: Train_grid",
            "grid.yaml:1: name: 'Train_grid' is not allowed: it must have the form",
        ),
        ("name: traingrid", f"name: {'a' * 25}", "it must have at most 24 characters"),
        ("name: traingrid", "name: default", 'every account has one called "default" already'),
        ("name: traingrid", "name: 7", "name: 7 is not allowed: this must be text; put it in quotation marks"),
        ("name: traingrid", "name:", "there is no value behind this key"),
        ('tag: "1"', "tag: 1", 'this must be text; put it in quotation marks. Write for example `tag: "1"`'),
        (
            '{repository: training, tag: "1"}',
            "{}",
            "an image is either a build with a target, a repository with a",
        ),
        (
            'tag: "1"',
            'tag: "1", uri: x/y:1',
            "an image is either a build with a target, a repository with a",
        ),
        (
            '{repository: training, tag: "1"}',
            "{algorithm: image-classification}",
            "an image is either a build with a target, a repository with a",
        ),
        (
            '{repository: training, tag: "1"}',
            '{algorithm: image-clasification, version: "1"}',
            "images.resnet.algorithm: 'image-clasification' is not allowed: it must be 'blazingtext', 'fact",
        ),
        (
            '{repository: training, tag: "1"}',
            '{framework: image-classification, version: "1", target: gpu}',
            "it takes no script, so it is no framework; write {algorithm: image-classification, version: ...}",
        ),
        ("repository: training", "repository: orchestrator", "the orchestrator's image has a repository of this name"),
        ("ml.g5.48xlarge", "g5.48xlarge", "job.instance_type: 'g5.48xlarge' is not allowed: it must have the form ^ml"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  instance_count: two", "job.instance_count: 'two' is not allowed"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  instance_count: 0", "it must be greater than or equal to 1"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  max_runtime: 3600", "a duration is a whole number and a unit: s, m, h"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  max_runtime: 29d", "it must be less than or equal to 2419200"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  channels: []", "there must be at least 1, not 0"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  channels: train", "this must be a list"),
        (
            "ml.g5.48xlarge",
            "ml.g5.48xlarge\n  hyperparameters: {a: [1]}",
            "job.hyperparameters.a: this must be one val",
        ),
        (
            "ml.g5.48xlarge",
            "ml.g5.48xlarge\n  mpi_options: |\n    -x A=1\n    -x B=2",
            "a hyperparameter is one line; in YAML write >-",
        ),
        (
            "ml.g5.48xlarge",
            f"ml.g5.48xlarge\n  mpi_options: {'x' * 2501}",
            "is not allowed: it must have at most 2500 characters",
        ),
        (
            "ml.g5.48xlarge",
            f"ml.g5.48xlarge\n  hyperparameters: {{{', '.join(f'p{n}: 1' for n in range(98))}}}",
            "there must be at most 97.",
        ),
        ("[campaigns-pdx]", "[Campaigns]", "grid.yaml:5: regions.us-west-2.data_buckets.0: 'Campaigns' is not allowed"),
        ("  us-east-1:", "  us-east-1: {data_buckets: [campaigns-pdx]}", "and a bucket lies in one Region"),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{subnets: [subnet-0123456789abcdef0]}",
            "grid.yaml:5: regions.us-west-2.subnets: a VPC takes both subnets and security_groups, and security_groups",
        ),
        (
            "{data_buckets: [campaigns-pdx]}",
            "{security_groups: [sg-01234567]}",
            "regions.us-west-2.security_groups: a VPC takes both subnets and security_groups, and subnets is missing",
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
            "{data_buckets: [campaigns-pdx]}",
            "{subnets: [subnet-01234567, subnet-01234567], security_groups: [sg-01234567]}",
            "regions.us-west-2.subnets: each may be listed once",
        ),
        ("images:", "training: {max_runtime: 29d}\nimages:", "training.max_runtime: "),
        ("images:", "training: {max_runtime: 29d}\nimages:", "it must be less than or equal to 2419200"),
        (
            "images:",
            "training: {max_runtime: 23h}\nimages:",
            "grid.yaml:6: training.max_runtime: '23h' is not allowed: the max_runtime of `job` is 86400s already",
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
        ("images:", "log_retention_days: 12\nimages:", "CloudWatch Logs keeps logs for 1, 3, 5"),
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
            "network.subnets: only an existing network has it; this one is private",
        ),
        ("images:", "network: {vpc: vpc-1}\nimages:", "network.vpc: 'vpc-1' is not allowed: it must have the form"),
        ("images:", "encryption: kmss\nimages:", "6: encryption: 'kmss' is not allowed: it must be 's3' or 'kms'"),
        (
            "images:",
            f"encryption: {{kind: kms, keys: {{us-east-1: '{KEY}'}}}}\nimages:",
            "encryption.keys: there is no key for us-west-2; give one for every Region, or none",
        ),
        (
            "images:",
            f"encryption: {{kind: kms, keys: {{us-west-2: '{KEY}'}}}}\nimages:",
            "encryption.keys: the key of us-west-2 lies in us-east-1, and a key encrypts in its Region only",
        ),
        (
            "images:",
            f"encryption: {{keys: {{us-east-1: '{KEY}'}}}}\nimages:",
            "encryption.keys: keys encrypt nothing while the kind is s3; write `kind: kms` or leave them out",
        ),
        (
            "images:",
            "abandoned_regions: [us-west-2]\nimages:",
            "abandoned_regions: us-west-2 stands in `regions`, too; take it out of one of them",
        ),
        ("[campaigns-pdx]", f"[campaigns-pdx], data_keys: ['{KEY}']", "a key decrypts in its Region only"),
        (
            "[campaigns-pdx]",
            "[campaigns-pdx], data_keys: ['arn:aws:kms:us-west-2:111122223333:alias/mine']",
            "regions.us-west-2.data_keys.0: 'arn:aws:kms:us-west-2:111122223333:alias/mine' is not allowed",
        ),
        ("home:", "name: other\nhome:", "grid.yaml:2: name: this key stands on line 1 already. Keep one of the two."),
        ("  us-east-1:", "  us-west-2:", "regions.us-west-2: this key stands on line 4 already"),
        ("job:\n", "jobs:\n", "jobs: there is no such key. Did you mean job?"),
    ],
)
def test_a_mistake_is_named_with_its_line_its_rule_and_what_to_write(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    assert sentence in "\n".join(problems(tmp_path, changed(old, new)))


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = changed("home: us-east-1", "home: us-east-9").replace("us-west-2", "us-wets-2").replace("resnet\n", "nets\n")
    text = text.replace("ml.", "").replace("images:", "imagess: 1\nimages:")
    told = problems(tmp_path, text)
    assert [sentence.split(": ")[0] for sentence in told] == [f"grid.yaml:{line}" for line in (2, 5, 6, 11)]
    told = problems(tmp_path, text.replace("g5.48xlarge", "ml.g5.48xlarge"))
    assert [sentence.split(": ")[0] for sentence in told] == [f"grid.yaml:{line}" for line in (2, 5, 6, 10)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "grid.yaml:1: a grid is a mapping with the keys name, home"),
        ("- a\n", "grid.yaml:1: a grid is a mapping"),
        ("a: [1\nb: 2\n", "this is not YAML"),
        ("a: b: c\n", "grid.yaml:1: this is not YAML: mapping values are not allowed here"),
        ("name: !!python/object/apply:os.system [id]\n", "this is not YAML: could not determine a constructor"),
        ("a: \x00\n", "this is not YAML"),
        ("[a, b]: 1\n", "this is not YAML: found unhashable key"),
        ("? {a: 1}\n: 2\n", "this is not YAML: found unhashable key"),
        ("name: 2026-02-30\n", "this is not YAML: day is out of range for month"),
        ("[" * 5000, "this is not YAML: maximum recursion depth exceeded"),
        ("1: 2\n", "grid.yaml:1: 1:"),
    ],
)
def test_what_is_no_grid_at_all_is_a_sentence_too(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in "\n".join(problems(tmp_path, text))


def test_a_file_that_is_not_there_or_not_text_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"No such file or directory\. Name a grid.yaml that exists"):
        load_grid(tmp_path / "nothing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(GridError, match="is not UTF-8"):
        load_grid(tmp_path / "binary.yaml")


def test_a_mapping_that_contains_itself_is_a_sentence(tmp_path: Path) -> None:
    assert problems(tmp_path, changed("us-west-2: {data", "us-west-2: &again {home: *again, data"))


def test_a_grid_that_does_not_fit_into_a_functions_environment_is_refused(tmp_path: Path) -> None:
    buckets = ", ".join(f"campaigns-of-the-year-{year}" for year in range(200))
    assert "this grid is too long" in problems(tmp_path, changed("campaigns-pdx", buckets))[0]


def test_regions_are_those_of_sagemaker_without_a_call_to_aws(tmp_path: Path) -> None:
    assert "Did you mean ap-southeast-2?" in problems(tmp_path, changed("us-west-2", "ap-southest-2"))[0]


def test_one_region_more_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(changed("  us-east-1:\n", "  us-east-1:\n  sa-east-1:\n"))
    assert list(load_grid(tmp_path / "grid.yaml").regions) == ["us-east-1", "sa-east-1", "us-west-2"]


def test_home_need_not_train(tmp_path: Path) -> None:
    (tmp_path / "grid.yaml").write_text(changed("home: us-east-1", "home: eu-west-1"))
    assert load_grid(tmp_path / "grid.yaml").home == "eu-west-1"


def test_each_target_is_built_once(tmp_path: Path) -> None:
    built = "{build: training, target: gpu}\n  b: {build: training, target: gpu}\n  c: {build: training, target: cpu}"
    (tmp_path / "grid.yaml").write_text(changed('{repository: training, tag: "1"}', built))
    grid = load_grid(tmp_path / "grid.yaml")
    assert grid.targets() == ("cpu", "gpu")
    assert grid.repositories() == ("training",)


def test_more_regions_than_ecr_replicates_to_are_refused_unless_somebody_else_replicates() -> None:
    regions = dict.fromkeys(f"eu-west-{number}" for number in range(1, 28))
    given = {"name": "g", "home": "eu-west-1", "regions": regions, "images": {"a": {"uri": "x/y:1"}}}
    given["job"] = {"image": "a", "instance_type": "ml.m5.large"}
    with pytest.raises(ValidationError, match="ECR replicates images to 25 other Regions at most, and these are 26"):
        Grid.model_validate(given)
    assert not Grid.model_validate({**given, "replicate_images": False}).replicate_images
    del regions["eu-west-27"]
    assert Grid.model_validate(given).replicate_images


def test_jobs_read_the_grids_bucket_and_those_of_grid_yaml(grid: Grid) -> None:
    assert grid.data_buckets("123456789012", "us-east-1") == ("traingrid-data-123456789012-us-east-1",)
    assert grid.data_buckets("123456789012", "us-west-2")[1:] == ("campaigns-pdx",)


def test_hyperparameters_become_the_text_that_sagemaker_passes_on(tmp_path: Path) -> None:
    values = "{epochs: 6, rate: 0.1, warm: true, model: resnet8, small: 1e-05}"
    (tmp_path / "grid.yaml").write_text(f"{GOOD}  hyperparameters: {values}\n")
    assert load_grid(tmp_path / "grid.yaml").job.hyperparameters == {
        "epochs": "6",
        "rate": "0.1",
        "warm": "true",
        "model": "resnet8",
        "small": "1e-05",
    }


LINES = st.text(max_size=20).filter(lambda text: len(text.splitlines()) == 1 and text == text.splitlines()[0])
SCALARS = LINES | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)


@given(
    job=st.fixed_dictionaries(
        {"image": st.just("resnet"), "instance_type": st.just("ml.m5.large")},
        optional={
            "instance_count": st.integers(1, 1000),
            "max_runtime": st.integers(1, 28 * 24).map(lambda hours: f"{hours}h"),
            "hyperparameters": st.dictionaries(LINES, SCALARS, max_size=5),
            "channels": st.lists(st.sampled_from(["train", "validation", "extra"]), min_size=1, unique=True),
        },
    ),
    regions=st.sets(st.sampled_from(["us-east-1", "eu-west-1", "sa-east-1"]), min_size=1),
    days=st.sampled_from(LOG_RETENTION_DAYS),
)
def test_a_grid_comes_out_of_the_environment_as_it_went_in(job: dict[str, Any], regions: set[str], days: int) -> None:
    grid = Grid.model_validate(
        {
            "name": "traingrid",
            "home": "us-east-1",
            "regions": dict.fromkeys(regions),
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": job,
            "log_retention_days": days,
        }
    )
    assert Grid.from_environment(grid.to_environment()) == grid


def test_what_confines_training_jobs_goes_through_the_environment_too(tmp_path: Path) -> None:
    vpc = "{subnets: [subnet-01234567], security_groups: [sg-01234567]}"
    training = "training: {max_runtime: 2d, network_isolation: true, encrypt_traffic: false}\n"
    (tmp_path / "grid.yaml").write_text(changed("{data_buckets: [campaigns-pdx]}", vpc) + training)
    grid = load_grid(tmp_path / "grid.yaml")
    assert grid.regions["us-west-2"].subnets == ("subnet-01234567",)
    assert grid.training.max_runtime == 172_800
    assert Grid.from_environment(grid.to_environment()) == grid


def test_the_environment_holds_no_defaults_and_is_checked_again(grid: Grid) -> None:
    text = grid.to_environment()
    assert "mpi_options" not in text
    assert "orchestrator" not in text
    with pytest.raises(ValidationError):
        Grid.from_environment(text.replace('"home"', '"homee"'))


def test_a_process_that_gets_its_grid_from_the_environment_needs_no_yaml() -> None:
    script = "import sys, traingrid.grid; sys.exit(int('yaml' in sys.modules or 'boto3' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("24h", 86400), ("2d", 172800), ("45 s", 45)])
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "24", 24, None, "1.5h", "-1h", "h", "1w", "1h30m", "٣h", True])
def test_anything_else_is_no_duration(text: object) -> None:
    with pytest.raises(ValueError, match="a whole number and a unit"):
        parse_duration(text)


def test_log_retention_offers_what_cloudwatch_offers() -> None:
    described = Loader().load_service_model("logs", "service-2")["shapes"]["Days"]["documentation"]
    assert not [days for days in LOG_RETENTION_DAYS if str(days) not in described]


def test_the_regions_are_those_of_which_boto3_knows_that_they_have_sagemaker() -> None:
    assert sagemaker_regions() == tuple(boto3.Session(region_name="us-east-1").get_available_regions("sagemaker"))


def test_nothing_is_suggested_for_a_word_that_is_near_to_nothing() -> None:
    assert nearest("qqqq", ("home", "name")) is None
    assert nearest("HOME", ("home", "name")) == "home"
