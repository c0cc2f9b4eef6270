"""Grid queues: valid queues in grid.yaml, and the errors of invalid ones."""

from pathlib import Path

import pytest

from tests.support.sample_grid import GOOD, problems
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings

QUEUES = GOOD.replace("  us-east-1:\n", "  us-east-1: {service_queue: {instances: 16}}\n").replace(
    "{data_buckets: [campaigns-pdx]}", "{service_queue: {quota_shares: {research: {ml.g5.48xlarge: 4}}, lend: true}}"
)
SHARED = f"{QUEUES}shares: {{research: 2}}\n"


@pytest.fixture
def grid(tmp_path: Path) -> GridSettings:
    (tmp_path / "grid.yaml").write_text(SHARED)
    return load_grid(tmp_path / "grid.yaml")


def test_every_region_may_have_a_queue_of_its_own_kind(grid: GridSettings) -> None:
    assert [grid.service_queue(region) for region in grid.regions] == ["traingrid-training", "traingrid-training-quota"]
    assert grid.service_queue("eu-west-1") == ""
    limits = [queue.limits() for region in grid.regions.values() if (queue := region.service_queue)]
    assert limits == [{"NUM_INSTANCES": 16}, {"ml.g5.48xlarge": 4}]


def test_queues_and_shares_reach_every_process_of_the_grid(grid: GridSettings) -> None:
    assert GridSettings.from_environment(grid.to_environment()) == grid


def test_an_old_job_without_a_share_uses_the_first_share(grid: GridSettings) -> None:
    assert [grid.share_of(share) for share in ("research", "", "gone")] == ["research"] * 3
    assert grid.model_copy(update={"shares": {}}).share_of("gone") == "default"


WRONG = {
    "queued without a queue": (
        f"{GOOD}  launch: queued\n",
        "us-west-2; write `service_queue: {instances: 16}` for each, or direct.",
    ),
    "a queue of no size": (GOOD.replace("{data_buckets: [campaigns-pdx]}", "{service_queue: {}}"), "either instances"),
    "a queue of two kinds": (
        SHARED.replace("{instances: 16}", "{instances: 16, quota_shares: {research: {ml.g5.48xlarge: 1}}}"),
        "regions.us-east-1.service_queue.instances: 16 is not allowed: a service queue must have either",
    ),
    "a queue in another account": (
        SHARED.replace("home: us-east-1\n", 'home: us-east-1\naccount: "123456789012"\n').replace(
            "{service_queue: {instances: 16}}", '{account: "210987654321", service_queue: {instances: 16}}'
        ),
        "a service queue must be in the home Region's account, but this Region is in another; remove one of the two",
    ),
    "a loan without shares": (
        SHARED.replace("{instances: 16}", "{instances: 16, lend: true}"),
        "lend requires quota_shares",
    ),
    "a share of nothing": (SHARED.replace("{ml.g5.48xlarge: 4}", "{}"), "research has 0 instance types"),
    "quota shares of nobody": (QUEUES, "shares: quota_shares of us-west-2 and `shares` must have the same names"),
    "a type for no job": (SHARED.replace("{ml.g5.48xlarge: 4}", "{ml.p5.48xlarge: 4}"), "jobs of the grid may not use"),
    "an unknown share": (
        SHARED.replace("  image: resnet\n", "  image: resnet\n  share: reserch\n"),
        "job.share: 'reserch' is not allowed: `shares` has no such share. Did you mean research?",
    ),
    "a share without weight": (SHARED.replace("research: 2", "research: 0"), "shares.research: 0 is not allowed"),
    "a share with a hyphen": (SHARED.replace("research", "re-search"), "it must have the form ^[A-Za-z0-9]{1,64}$"),
}


@pytest.mark.parametrize(("text", "expected"), WRONG.values(), ids=WRONG.keys())
def test_invalid_queues_are_refused_with_key_and_rule(tmp_path: Path, text: str, expected: str) -> None:
    sentences = problems(tmp_path, text)
    assert any(expected in sentence for sentence in sentences), sentences
    assert all(sentence.startswith("grid.yaml:") for sentence in sentences)


def test_an_example_that_is_the_value_in_the_file_is_omitted(tmp_path: Path) -> None:
    both = SHARED.replace("{instances: 16}", "{instances: 16, quota_shares: {research: {ml.g5.48xlarge: 1}}}")
    rule = "a service queue must have either instances or quota_shares."
    assert any(sentence.endswith(rule) for sentence in problems(tmp_path, both))
    other = both.replace("{instances: 16, quota", "{instances: 8, quota")
    assert any(f"{rule} Write for example `instances: 16`: Max" in sentence for sentence in problems(tmp_path, other))
