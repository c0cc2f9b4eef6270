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
    options = parser.parse_args(arguments)
    try:
        print(_answer(options))
    except ClientError as error:
        print(f"\n{error}", file=sys.stderr)
        return 254
    return 0


def _answer(options: argparse.Namespace) -> str:
    if options.command == "cp":
        bucket, _, key = options.source.removeprefix("s3://").partition("/")
        boto3.client("s3").download_file(bucket, key, options.target)
        return ""
    if options.command == "put-events":
        return json.dumps(boto3.client("events").put_events(Entries=options.entries), default=str)
    ecr: Any = boto3.client("ecr", region_name=options.region)
    if options.command == "get-login-password":
        return str(ecr.get_authorization_token()["authorizationData"][0]["authorizationToken"])
    kind, _, value = options.image_ids.partition("=")
    registry = {"registryId": options.registry_id} if options.registry_id else {}
    request = {"repositoryName": options.repository_name, "imageIds": [{kind: value}], **registry}
    details = ecr.describe_images(**request)["imageDetails"]
    reply = json.loads(json.dumps({"imageDetails": details}, default=lambda moment: moment.isoformat()))
    result = jmespath.search(options.query, reply) if options.query else reply
    return str(result) if options.output == "text" else json.dumps(result)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
