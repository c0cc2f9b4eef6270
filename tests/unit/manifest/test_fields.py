"""The table of manifest fields agrees with jobs, the grid's defaults and the SDK's attributes."""

import re

from traingrid.api.trainer_attributes import ATTRIBUTES
from traingrid.grid.job_defaults import JobDefaults
from traingrid.job.job import Channel, Job
from traingrid.manifest.fields import FIELDS, NO_SETTINGS, SETTINGS, LineSettings


def test_the_values_of_fields_are_attributes_of_jobs() -> None:
    assert [field.name for field in FIELDS.values() if field.job and field.job not in Job.model_fields] == []


def test_every_optional_field_has_a_reader() -> None:
    without = [field.name for field in SETTINGS.values() if not field.read and not field.read_entry]
    assert without == ["training_plan"]  # its readers depend on the line's Regions


def test_settings_replace_the_defaults_of_the_grid() -> None:
    defaults = JobDefaults(image="resnet", instance_type="ml.g5.xlarge", instance_count=2, streams="rank")
    job = LineSettings(instance_count=4, retries=0).applied_to(defaults)
    assert (job.instance_count, job.retries, job.streams, job.instance_type) == (4, 0, "rank", "ml.g5.xlarge")
    assert NO_SETTINGS.applied_to(defaults) is defaults
    assert LineSettings(algorithm="resnet-scan").applied_to(defaults).streams == "host"


def test_attributes_of_the_sdk_become_known_fields() -> None:
    named = {
        field
        for attributes in ATTRIBUTES.values()
        for attribute in attributes.values()
        for field in re.findall(r"`(\w+)`", attribute.fields)
    }
    assert named - FIELDS.keys() - Channel.model_fields.keys() == set()
