"""Grid job: `job` in grid.yaml, the defaults of manifest lines."""

from pathlib import Path

import pytest

from tests.support.sample_grid import GOOD, changed, problems
from traingrid.grid.field_types import parse_duration
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings


def test_the_default_mpi_options_are_these(grid: GridSettings) -> None:
    assert grid.job.mpi_options == (
        "-mca btl_vader_single_copy_mechanism none -x NCCL_MIN_NRINGS=8 -x NCCL_LAUNCH_MODE=PARALLEL"
    )


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("instance_type:", "instance_typ:", "grid.yaml:10: job.instance_typ: there is no such key. Did you mean inst"),
        (
            "job:\n",
            "job:\n  qqqq: 1\n",
            "grid.yaml:9: job.qqqq: there is no such key. Choose from: image, instance_type",
        ),
        (
            "job:\n",
            "job:\n  source: mine\n",
            "grid.yaml:9: job.source: there is no such key. source is a field of the lines of a manifest: write it",
        ),
        ("  image: resnet\n", "", "grid.yaml:8: job.image: this key is missing. Write for example `image: resnet`"),
        ("image: resnet\n", "image: resnett\n", "grid.yaml:9: job.image: 'resnett' is not allowed: `images` has no s"),
        ("image: resnet\n", "image: resnett\n", "Did you mean resnet?"),
        ("ml.g5.48xlarge", "g5.48xlarge", "job.instance_type: 'g5.48xlarge' is not allowed: it must have the form ^ml"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  instance_count: two", "job.instance_count: 'two' is not allowed"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  instance_count: 0", "it must be greater than or equal to 1"),
        ("ml.g5.48xlarge", "ml.g5.48xlarge\n  max_runtime: 3600", "s, m, h or d. Write for example `max_runtime: "),
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
            "a hyperparameter must be a single line; in YAML write >-",
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
    ],
)
def test_a_mistake_in_job_is_reported_with_line_rule_and_fix(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert sentence in "\n".join(problems(tmp_path, changed(old, new)))


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


@pytest.mark.parametrize(("text", "seconds"), [("90m", 5400), ("24h", 86400), ("2d", 172800), ("45 s", 45)])
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "24", 24, None, "1.5h", "-1h", "h", "1w", "1h30m", "٣h", True])
def test_invalid_durations_are_refused(text: object) -> None:
    with pytest.raises(ValueError, match="a whole number and a unit"):
        parse_duration(text)
