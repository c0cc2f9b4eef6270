"""Recipes: which jobs a plan compares."""

from tests.support.sample_job import sample_job
from traingrid.job.job import Channel
from traingrid.job.recipe import recipe_of


def test_region_tag_data_and_instance_type_do_not_change_a_recipe() -> None:
    job = sample_job("us-east-1")
    other = sample_job("eu-west-1", 3)
    changed = other.model_copy(
        update={
            "image": other.image.replace(":v1", "@sha256:" + "0" * 64),
            "inputs": {"train": Channel(uri="s3://other/data/")},
            "instance_type": "ml.p4d.24xlarge",
            "output": "s3://other/out/",
        }
    )
    assert recipe_of(changed) == recipe_of(other) == recipe_of(job)


def test_program_hyperparameters_and_size_are_parts_of_a_recipe() -> None:
    job = sample_job("us-east-1")
    changes = (
        {"entry_point": "other.py"},
        {"hyperparameters": {"epochs": "9"}},
        {"instance_count": 2},
        {"processes_per_host": 8},
        {"image": job.image.replace("training", "other")},
    )
    assert len({recipe_of(job), *(recipe_of(job.model_copy(update=change)) for change in changes)}) == 6
