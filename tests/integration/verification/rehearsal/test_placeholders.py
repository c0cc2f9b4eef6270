"""Placeholders of a rehearsal exist in the account and Region in which a job looks for them."""

import json

from moto import mock_aws
from moto.ecr.models import ecr_backends
from moto.s3.models import s3_backends

from tests.integration.stacks.templates import a_grid
from traingrid.grid.deployment import Deployment
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from verification.rehearsal.placeholders import create_placeholders

HOME, OTHER = "123456789012", "210987654321"


def test_data_and_images_are_in_the_account_of_their_region() -> None:
    theirs = {"account": OTHER, "data_buckets": ["campaigns-dub"]}
    grid = a_grid({"us-east-1": {"data_buckets": ["campaigns-iad"]}, "eu-west-1": theirs}, account=HOME)
    deployment = Deployment(grid=grid, account=HOME, table="", manifest_bucket="")
    lines = parse([b"us-east-1,s3://campaigns-iad/one\neu-west-1,s3://campaigns-dub/one\n"], deployment)
    with mock_aws():
        create_placeholders(jobs_of_lines(lines, deployment, "0123abcd"), deployment.account_of)
        for account, region, bucket in ((HOME, "us-east-1", "campaigns-iad"), (OTHER, "eu-west-1", "campaigns-dub")):
            assert list(s3_backends[account]["aws"].buckets) == [bucket]
            assert list(ecr_backends[account][region].repositories) == ["traingrid/training"]


def test_a_channel_on_a_file_system_needs_no_object() -> None:
    vpc = {"subnets": ["subnet-0123456789abcdef0"], "security_groups": ["sg-0123456789abcdef0"]}
    mounted = {**vpc, "file_systems": {"fs-01234567": "EFS"}, "data_buckets": ["campaigns-iad"]}
    deployment = Deployment(grid=a_grid({"us-east-1": mounted}), account=HOME, table="", manifest_bucket="")
    inputs = {"train": {"file_system": "fs-01234567", "path": "/a"}, "words": "s3://campaigns-iad/words/"}
    lines = parse([json.dumps({"region": "us-east-1", "inputs": inputs}).encode()], deployment)
    with mock_aws():
        create_placeholders(jobs_of_lines(lines, deployment, "0123abcd"), deployment.account_of)
        assert list(s3_backends[HOME]["aws"].buckets["campaigns-iad"].keys) == ["words/part-0"]
