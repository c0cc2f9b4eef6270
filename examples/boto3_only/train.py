"""A program for AWS that uses only boto3: it trains a model on SageMaker, and waits for the end at a queue.

It needs an image hello:1 in ECR of its Region. To try it without an account:

    eval "$(localcloud up)"
    localcloud push hello:1 -- python -c 'print("hello from a training job")'
    python examples/boto3_only/train.py
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any

import boto3

TRUST = {"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
MAY = {"Effect": "Allow", "Action": ["ecr:*", "logs:*", "s3:*"], "Resource": "*"}


def main() -> None:
    name = f"hello-{uuid.uuid4().hex[:8]}"
    account = boto3.client("sts").get_caller_identity()["Account"]
    region = boto3.session.Session().region_name
    image = f"{account}.dkr.ecr.{region}.amazonaws.com/hello:1"
    queue = queue_of_ends(name)
    train(name, image, bucket=bucket_with_data(name), role=role(name))
    print(f"{name}: {end(queue)}")
    for line in log(name):
        print(f"  {line}")


def document(*statements: Mapping[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def bucket_with_data(name: str) -> str:
    s3 = boto3.client("s3")
    home = s3.meta.region_name
    elsewhere: Any = {} if home == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": home}}
    s3.create_bucket(Bucket=name, **elsewhere)
    s3.put_object(Bucket=name, Key="data/part-0", Body=b"1,2,3\n")
    return name


def role(name: str) -> str:
    iam = boto3.client("iam")
    arn = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document(TRUST))["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="training", PolicyDocument=document(MAY))
    return str(arn)


def queue_of_ends(name: str) -> str:
    """Return the URL of a queue that gets an event when the training job has ended."""
    sqs, events = boto3.client("sqs"), boto3.client("events")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    may_send = {
        "Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage",
        "Resource": arn,
    }  # fmt: skip
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": document(may_send)})
    detail = {"TrainingJobName": [name], "TrainingJobStatus": ["Completed", "Failed", "Stopped"]}
    pattern = {
        "source": ["aws.sagemaker"], "detail-type": ["SageMaker Training Job State Change"], "detail": detail,
    }  # fmt: skip
    events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=name, Targets=[{"Id": "queue", "Arn": arn}])
    return str(url)


def train(name: str, image: str, bucket: str, role: str) -> None:
    data: Any = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{bucket}/data/"}
    boto3.client("sagemaker").create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={"TrainingImage": image, "TrainingInputMode": "File"},
        RoleArn=role,
        InputDataConfig=[{"ChannelName": "train", "DataSource": {"S3DataSource": data}}],
        OutputDataConfig={"S3OutputPath": f"s3://{bucket}/out/"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )


def end(queue: str) -> str:
    """Wait for the event of the end, and return the status of the training job."""
    sqs = boto3.client("sqs")
    while True:
        for message in sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20).get("Messages", []):
            return str(json.loads(message["Body"])["detail"]["TrainingJobStatus"])


def log(name: str) -> list[str]:
    logs, group = boto3.client("logs"), "/aws/sagemaker/TrainingJobs"
    streams = logs.describe_log_streams(logGroupName=group, logStreamNamePrefix=f"{name}/")["logStreams"]
    events = [
        event
        for stream in streams
        for event in logs.get_log_events(logGroupName=group, logStreamName=stream["logStreamName"], startFromHead=True)[
            "events"
        ]
    ]
    return [event["message"] for event in events]


if __name__ == "__main__":
    main()
