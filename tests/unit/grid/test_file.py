"""Grid: a valid grid.yaml is loaded; an invalid one causes an error for every mistake, with line, rule and fix.

test_grid_job.py, test_grid_regions.py and test_grid_control_plane.py test its sections.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.support.sample_grid import changed, problems
from traingrid.grid.file import load_grid, nearest
from traingrid.grid.image import EFA_TARGETS, NO_EFA
from traingrid.grid.job_defaults import MPI_OPTIONS
from traingrid.grid.model import LOG_RETENTION_DAYS, GridError, GridSettings

ROOT = Path(__file__).parents[3]
SHIPPED = [ROOT / "grid.yaml", *sorted(set(ROOT.glob("examples/*/*.yaml")) - set(ROOT.glob("examples/rounds/*")))]


@pytest.mark.parametrize("path", ["grid.yaml", "examples/digits/grid.yaml"])
def test_the_grids_of_this_repository_are_valid_and_use_the_same_names(path: str) -> None:
    grid = load_grid(ROOT / path)
    assert grid.home == "us-east-1"
    assert list(grid.regions) == ["us-east-1", "us-west-2", "eu-west-1", "eu-central-1"]
    assert grid.name == load_grid(ROOT / "grid.yaml").name


@pytest.mark.parametrize("path", [path.relative_to(ROOT).as_posix() for path in SHIPPED])
def test_no_grid_of_this_repository_builds_an_image_with_efa_until_such_a_build_has_run(path: str) -> None:
    built = [image for image in load_grid(ROOT / path).images.values() if image.build and image.target in EFA_TARGETS]
    assert [image.efa for image in built if image.efa != NO_EFA] == []


def test_omitted_settings_have_defaults(grid: GridSettings) -> None:
    assert grid.job.max_runtime == 24 * 3600
    assert grid.job.mpi_options == MPI_OPTIONS
    assert grid.job.channels == ("train", "validation")
    assert (grid.orchestrator.vcpu, grid.orchestrator.memory_mib, grid.orchestrator.max_vcpus) == (0.25, 512, 64)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("home:", "homee:", "grid.yaml:2: homee: there is no such key. Did you mean home?"),
        ("home: us-east-1\n", "", "home: this key is missing. Write for example `home: us-east-1`: Region of the con"),
        ("home: us-east-1", "home: us-esat-1", "grid.yaml:2: home: 'us-esat-1' is not allowed: no Region with this"),
        (
            "name: traingrid",
            "name: Train_grid",
            "grid.yaml:1: name: 'Train_grid' is not allowed: it must have the form",
        ),
        ("name: traingrid", f"name: {'a' * 25}", "it must have at most 24 characters"),
        ("name: traingrid", "name: default", 'every account already has a bus named "default"'),
        ("name: traingrid", "name: lab-training", "a grid named lab could have resources with the same names"),
        ("name: traingrid", "name: lab-registry", "a grid named lab could have resources with the same names"),
        ("name: traingrid", "name: lab-0123abcd", "a grid named lab could have resources with the same names"),
        ("name: traingrid", "name: 7", "name: 7 is not allowed: this must be text; put it in quotation marks"),
        ("name: traingrid", "name:", "grid.yaml:1: name: this key has no value. Write for example `name: traingrid`"),
        ("home:", "name: other\nhome:", "grid.yaml:2: name: this key is already on line 1. Remove one of the two."),
        ("job:\n", "jobs:\n", "jobs: there is no such key. Did you mean job?"),
        ("tag:", "tags:", "grid.yaml:7: images.resnet.tags: there is no such key. Did you mean tag?"),
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
            "this algorithm does not run scripts; write {algorithm: image-classification, version: ...}",
        ),
        (
            '{repository: training, tag: "1"}',
            '{build: training, target: gpu, efa: "1.49"}',
            "images.resnet.efa: '1.49' is not allowed: it must have the form",
        ),
        (
            '{repository: training, tag: "1"}',
            "{build: training, target: cpu, efa: none}",
            "images.resnet.efa: 'none' is not allowed: only an image with build: training and the target gpu or",
        ),
        (
            '{repository: training, tag: "1"}',
            '{build: training, target: gpu, efa: "1.49.0"}',
            "images.resnet.efa: '1.49.0' is not allowed: a version requires efa_sha256, its checksum on https://docs.aws",
        ),
        *(
            (
                '{repository: training, tag: "1"}',
                f'{{build: training, target: gpu, efa: "{version}", efa_sha256: ' + "a" * 64 + "}",
                f"images.resnet.efa: '{version}' is not allowed: NCCL may hang in broadcasts between hosts",
            )
            for version in ("1.47.0", "1.48.1")
        ),
        (
            '{repository: training, tag: "1"}',
            '{build: training, target: gpu, efa: "1.34.0", efa_sha256: ' + "a" * 64 + "}",
            "the oldest supported version of the EFA installer is 1.39.0",
        ),
        (
            '{repository: training, tag: "1"}',
            '{build: training, target: gpu, efa: "1.49.0; id", efa_sha256: ' + "a" * 64 + "}",
            "images.resnet.efa: '1.49.0; id' is not allowed: it must have the form",
        ),
        (
            '{repository: training, tag: "1"}',
            '{build: training, target: gpu, efa: "1.49.0", efa_sha256: "cf2e9281"}',
            "images.resnet.efa_sha256: 'cf2e9281' is not allowed: it must have the form",
        ),
        (
            '{repository: training, tag: "1"}',
            "{build: training, target: gpu, efa_sha256: " + "b" * 64 + "}",
            "it is the checksum of a version; set efa, too",
        ),
        (
            '{repository: training, tag: "1"}',
            "{build: training, target: gpu, efaa: none}",
            "images.resnet.efaa: there is no such key. Did you mean efa?",
        ),
        (
            '{repository: training, tag: "1"}',
            '{framework: pytorch, version: "2.8", target: torch}',
            "AWS's container of pytorch has the target cpu or gpu; torch is for build: training",
        ),
        (
            'resnet: {repository: training, tag: "1"}',
            "resnet: {build: training, target: gpu, efa: none}\n  fast: {build: training, target: gpu}",
            "a deployment builds the target gpu once, so its aliases need the same efa; they have EFA=none, the def",
        ),
        ("repository: training", "repository: orchestrator", "reserved for the repository of the orchestrator's image"),
    ],
)
def test_a_mistake_is_reported_with_line_rule_and_fix(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert sentence in "\n".join(problems(tmp_path, changed(old, new)))


def test_all_mistakes_are_reported_at_once_in_file_order(tmp_path: Path) -> None:
    text = changed("home: us-east-1", "home: us-east-9").replace("us-west-2", "us-wets-2").replace("resnet\n", "nets\n")
    text = text.replace("ml.", "").replace("images:", "imagess: 1\nimages:")
    sentences = problems(tmp_path, text)
    assert [sentence.split(": ")[0] for sentence in sentences] == [f"grid.yaml:{line}" for line in (2, 5, 6, 11)]
    sentences = problems(tmp_path, text.replace("g5.48xlarge", "ml.g5.48xlarge"))
    assert [sentence.split(": ")[0] for sentence in sentences] == [f"grid.yaml:{line}" for line in (2, 5, 6, 10)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "grid.yaml:1: a grid must be a mapping with the keys name, home"),
        ("- a\n", "grid.yaml:1: a grid must be a mapping"),
        ("a: [1\nb: 2\n", "invalid YAML"),
        ("a: b: c\n", "grid.yaml:1: invalid YAML: mapping values are not allowed here"),
        ("name: !!python/object/apply:os.system [id]\n", "invalid YAML: could not determine a constructor"),
        ("a: \x00\n", "invalid YAML"),
        ("[a, b]: 1\n", "invalid YAML: found unhashable key"),
        ("? {a: 1}\n: 2\n", "invalid YAML: found unhashable key"),
        ("name: 2026-02-30\n", "invalid YAML: day is out of range for month"),
        ("[" * 5000, "invalid YAML: maximum recursion depth exceeded"),
        ("1: 2\n", "grid.yaml:1: 1:"),
    ],
)
def test_a_file_that_is_not_a_grid_is_reported_in_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    assert sentence in "\n".join(problems(tmp_path, text))


def test_a_missing_or_binary_file_is_reported_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(GridError, match=r"No such file or directory\. Name the grid's file: traingrid --grid FILE"):
        load_grid(tmp_path / "nothing.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(GridError, match="is not UTF-8"):
        load_grid(tmp_path / "binary.yaml")


def test_a_recursive_mapping_is_reported_in_a_sentence(tmp_path: Path) -> None:
    assert problems(tmp_path, changed("us-west-2: {data", "us-west-2: &again {home: *again, data"))


def test_a_grid_that_does_not_fit_into_a_functions_environment_is_refused(tmp_path: Path) -> None:
    buckets = ", ".join(f"campaigns-of-the-year-{year}" for year in range(200))
    assert "this grid is too large" in problems(tmp_path, changed("campaigns-pdx", buckets))[0]


def test_each_target_is_built_once(tmp_path: Path) -> None:
    built = "{build: training, target: gpu}\n  b: {build: training, target: gpu}\n  c: {build: training, target: cpu}"
    (tmp_path / "grid.yaml").write_text(changed('{repository: training, tag: "1"}', built))
    grid = load_grid(tmp_path / "grid.yaml")
    assert grid.targets() == ("cpu", "gpu")
    assert grid.repositories() == ("training",)


def test_too_many_replicated_regions_are_refused() -> None:
    regions = dict.fromkeys(f"eu-west-{number}" for number in range(1, 28))
    given = {"name": "g", "home": "eu-west-1", "regions": regions, "images": {"a": {"uri": "x/y:1"}}}
    given["job"] = {"image": "a", "instance_type": "ml.m5.large"}
    with pytest.raises(ValidationError, match="ECR replicates images to at most 25 other Regions; this grid has 26"):
        GridSettings.model_validate(given)
    assert not GridSettings.model_validate({**given, "replicate_images": False}).replicate_images
    del regions["eu-west-27"]
    assert GridSettings.model_validate(given).replicate_images


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
def test_a_grid_survives_the_environment_unchanged(job: dict[str, Any], regions: set[str], days: int) -> None:
    grid = GridSettings.model_validate(
        {
            "name": "traingrid",
            "home": "us-east-1",
            "regions": dict.fromkeys(regions),
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": job,
            "log_retention_days": days,
        }
    )
    assert GridSettings.from_environment(grid.to_environment()) == grid


def test_the_environment_omits_defaults_and_is_validated(grid: GridSettings) -> None:
    text = grid.to_environment()
    assert "mpi_options" not in text
    assert "orchestrator" not in text
    with pytest.raises(ValidationError):
        GridSettings.from_environment(text.replace('"home"', '"homee"'))


def test_reading_a_grid_from_the_environment_needs_no_yaml() -> None:
    script = "import sys, traingrid.grid.model; sys.exit(int('yaml' in sys.modules or 'boto3' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=False).returncode == 0


def test_no_suggestion_is_made_for_an_unrelated_word() -> None:
    assert nearest("qqqq", ("home", "name")) is None
    assert nearest("HOME", ("home", "name")) == "home"
