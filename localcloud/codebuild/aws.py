"""AWS CLI for builds: `aws s3 cp`, `aws ecr describe-images` and `get-login-password`, `aws events put-events`."""

import argparse
import json
import sys
from typing import Any

import boto3
import jmespath
from botocore.exceptions import ClientError


def main(arguments: list[str]) -> int:
    """Run one command; return 254, the CLI's exit code, if AWS refused it."""
    parser = argparse.ArgumentParser(prog="aws")
    services = parser.add_subparsers(dest="service", required=True)
    s3 = services.add_parser("s3").add_subparsers(dest="command", required=True).add_parser("cp")
    s3.add_argument("--only-show-errors", action="store_true")
    s3.add_argument("source")
    s3.add_argument("target")
    ecr = services.add_parser("ecr").add_subparsers(dest="command", required=True)
    ecr.add_parser("get-login-password").add_argument("--region")
    describe = ecr.add_parser("describe-images")
    describe.add_argument("--region")
    describe.add_argument("--registry-id")
    describe.add_argument("--repository-name", required=True)
    describe.add_argument("--image-ids", required=True)
    describe.add_argument("--query")
    describe.add_argument("--output", choices=["json", "text"], default="json")
    events = services.add_parser("events").add_subparsers(dest="command", required=True)
    events.add_parser("put-events").add_argument("--entries", required=True, type=json.loads)
    given = parser.parse_args(arguments)
    try:
        print(_answer(given))
    except ClientError as error:
        print(f"\n{error}", file=sys.stderr)
        return 254
    return 0


def _answer(given: argparse.Namespace) -> str:
    if given.command == "cp":
        bucket, _, key = given.source.removeprefix("s3://").partition("/")
        boto3.client("s3").download_file(bucket, key, given.target)
        return ""
    if given.command == "put-events":
        return json.dumps(boto3.client("events").put_events(Entries=given.entries), default=str)
    ecr: Any = boto3.client("ecr", region_name=given.region)
    if given.command == "get-login-password":
        return str(ecr.get_authorization_token()["authorizationData"][0]["authorizationToken"])
    kind, _, value = given.image_ids.partition("=")
    registry = {"registryId": given.registry_id} if given.registry_id else {}
    wanted = {"repositoryName": given.repository_name, "imageIds": [{kind: value}], **registry}
    found = ecr.describe_images(**wanted)["imageDetails"]
    answer = json.loads(json.dumps({"imageDetails": found}, default=lambda moment: moment.isoformat()))
    chosen = jmespath.search(given.query, answer) if given.query else answer
    return str(chosen) if given.output == "text" else json.dumps(chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
