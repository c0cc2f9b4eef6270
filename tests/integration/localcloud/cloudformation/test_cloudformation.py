import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

BUCKET = {
    "Type": "AWS::S3::Bucket",
    "Properties": {
        "VersioningConfiguration": {"Status": "Enabled"},
        "NotificationConfiguration": {"EventBridgeConfiguration": {"EventBridgeEnabled": "true"}},
        "PublicAccessBlockConfiguration": {"BlockPublicAcls": "true", "BlockPublicPolicy": True},
        "LifecycleConfiguration": {
            "Rules": [{"Id": "old", "Status": "Enabled", "NoncurrentVersionExpiration": {"NoncurrentDays": "30"}}]
        },
        "Tags": [{"Key": "traingrid:grid", "Value": "g"}],
    },
}
UNKNOWN = {"Type": "AWS::Nowhere::Nothing", "Properties": {}}


def trust(service: str) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return {"Version": "2012-10-17", "Statement": [statement]}


def body(resources: dict[str, Any], **outputs: Any) -> str:
    values = {name: {"Value": value} for name, value in outputs.items()}
    return json.dumps({"Resources": resources, "Outputs": values})


@pytest.fixture
def stacks(client: Callable[..., Any]) -> Any:
    return client("cloudformation")


def stack(stacks: Any, name: str) -> Any:
    return stacks.describe_stacks(StackName=name)["Stacks"][0]


def outputs(stacks: Any, name: str) -> dict[str, str]:
    return {output["OutputKey"]: output["OutputValue"] for output in stack(stacks, name)["Outputs"]}


def test_bucket_properties_are_applied(stacks: Any, client: Callable[..., Any]) -> None:
    stacks.create_stack(StackName="bucket", TemplateBody=body({"B": BUCKET}, Name={"Ref": "B"}))
    name = outputs(stacks, "bucket")["Name"]
    s3 = client("s3")
    assert s3.get_bucket_versioning(Bucket=name)["Status"] == "Enabled"
    assert s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"]["BlockPublicAcls"] is True
    rule = s3.get_bucket_lifecycle_configuration(Bucket=name)["Rules"][0]
    assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] == 30
    assert s3.get_bucket_tagging(Bucket=name)["TagSet"] == [{"Key": "traingrid:grid", "Value": "g"}]


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (UNKNOWN, "cannot provision AWS::Nowhere::Nothing"),
        ({"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "x"}}, "InvalidBucketName"),
        ({"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": {"Fn::GetAtt": ["Q", "Nope"]}}}, "Nope"),
        (
            {"Type": "AWS::ECR::Repository", "Properties": {"RepositoryName": "r", "Colour": "red"}},
            "Properties validation failed for resource X with message:\n#: extraneous key [Colour] is not permitted",
        ),
    ],
)
def test_a_failed_resource_fails_the_stack_and_rolls_back_the_others(
    stacks: Any, client: Callable[..., Any], resource: dict[str, Any], words: str
) -> None:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "taken-back"}}
    stacks.create_stack(StackName="failing", TemplateBody=body({"Q": queue, "X": {**resource, "DependsOn": "Q"}}))
    failed = stack(stacks, "failing")
    assert failed["StackStatus"] == "ROLLBACK_COMPLETE"
    assert words in failed["StackStatusReason"]
    events = stacks.describe_stack_events(StackName="failing")["StackEvents"]
    assert [event["LogicalResourceId"] for event in events if event["ResourceStatus"] == "CREATE_FAILED"] == ["X"]
    assert "QueueUrls" not in client("sqs").list_queues(QueueNamePrefix="taken-back")
    stacks.delete_stack(StackName="failing")


def test_an_update_changes_in_place_adds_and_deletes_resources(stacks: Any, client: Callable[..., Any]) -> None:
    role: dict[str, Any] = {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": trust("batch.amazonaws.com")},
    }
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 7}}
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "removed-later"}}
    names = {"Role": {"Fn::GetAtt": ["R", "Arn"]}, "Group": {"Ref": "G"}}
    iam: dict[str, Any] = {"StackName": "update", "Capabilities": ["CAPABILITY_IAM"]}
    stacks.create_stack(TemplateBody=body({"R": role, "G": group, "Q": queue}, **names), **iam)
    before = outputs(stacks, "update")
    longer = {"Type": "AWS::Logs::LogGroup", "Properties": {"RetentionInDays": 30}}
    described = {**role, "Properties": {**role["Properties"], "Description": "better"}}
    stacks.update_stack(TemplateBody=body({"R": described, "G": longer, "B": BUCKET}, **names), **iam)
    assert stack(stacks, "update")["StackStatus"] == "UPDATE_COMPLETE"
    assert outputs(stacks, "update") == before
    logs = client("logs").describe_log_groups(logGroupNamePrefix=before["Group"])
    assert logs["logGroups"][0]["retentionInDays"] == 30
    assert client("iam").get_role(RoleName=before["Role"].rsplit("/")[-1])["Role"]["Description"] == "better"
    assert "QueueUrls" not in client("sqs").list_queues(QueueNamePrefix="removed-later")


def test_a_failed_update_rolls_back_to_the_previous_template(stacks: Any, client: Callable[..., Any]) -> None:
    queue = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "stays", "VisibilityTimeout": 40}}
    stacks.create_stack(StackName="back", TemplateBody=body({"Q": queue}))
    other = {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "stays", "VisibilityTimeout": 50}}
    stacks.update_stack(StackName="back", TemplateBody=body({"Q": other, "X": {**UNKNOWN, "DependsOn": "Q"}}))
    assert stack(stacks, "back")["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    sqs = client("sqs")
    url = sqs.get_queue_url(QueueName="stays")["QueueUrl"]
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
    assert attributes["VisibilityTimeout"] == "40"


def _indexed_table(*indexes: str) -> dict[str, Any]:
    keys = [{"AttributeName": "a", "KeyType": "HASH"}]
    made = [{"IndexName": name, "KeySchema": keys, "Projection": {"ProjectionType": "KEYS_ONLY"}} for name in indexes]
    properties = {
        "TableName": "indexed",
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": keys,
        **({"GlobalSecondaryIndexes": made} if made else {}),
    }
    return {"Type": "AWS::DynamoDB::Table", "Properties": properties}


def test_an_update_adds_one_index_to_a_table_and_keeps_its_items(stacks: Any, client: Callable[..., Any]) -> None:
    dynamodb = client("dynamodb")
    stacks.create_stack(StackName="index", TemplateBody=body({"T": _indexed_table()}))
    dynamodb.put_item(TableName="indexed", Item={"a": {"S": "kept"}})
    stacks.update_stack(StackName="index", TemplateBody=body({"T": _indexed_table("one")}))
    assert stack(stacks, "index")["StackStatus"] == "UPDATE_COMPLETE"
    found = dynamodb.query(
        TableName="indexed",
        IndexName="one",
        KeyConditionExpression="a = :a",
        ExpressionAttributeValues={":a": {"S": "kept"}},
    )
    assert found["Items"] == [{"a": {"S": "kept"}}]
    stacks.update_stack(StackName="index", TemplateBody=body({"T": _indexed_table("two", "three")}))
    assert stack(stacks, "index")["StackStatus"] == "UPDATE_ROLLBACK_COMPLETE"
    stacks.delete_stack(StackName="index")


def test_deleting_a_stack_deletes_resources_that_are_not_retained(stacks: Any, client: Callable[..., Any]) -> None:
    group = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/kept"}, "DeletionPolicy": "Retain"}
    table = {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "TableName": "gone",
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": "true"},
        },
    }
    stacks.create_stack(StackName="delete", TemplateBody=body({"G": group, "T": table}))
    assert stack(stacks, "delete")["StackStatus"] == "CREATE_COMPLETE"
    stacks.delete_stack(StackName="delete")
    assert client("dynamodb").list_tables()["TableNames"] == []
    assert client("logs").describe_log_groups(logGroupNamePrefix="/kept")["logGroups"]
    with pytest.raises(ClientError, match="does not exist"):
        stacks.describe_stacks(StackName="delete")


def test_concurrent_deletions_delete_a_stack_once(stacks: Any) -> None:
    queues = {f"Q{number}": {"Type": "AWS::SQS::Queue", "Properties": {}} for number in range(10)}
    stacks.create_stack(StackName="popular", TemplateBody=body(queues))
    identifier = stack(stacks, "popular")["StackId"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: stacks.delete_stack(StackName="popular"), range(8)))
    assert [answer["ResponseMetadata"]["RetryAttempts"] for answer in answers] == [0] * 8
    events = stacks.describe_stack_events(StackName=identifier)["StackEvents"]
    assert [event["ResourceStatus"] for event in events].count("DELETE_COMPLETE") == 11


def test_a_bucket_with_objects_leaves_the_stack_in_delete_failed(stacks: Any, client: Callable[..., Any]) -> None:
    stacks.create_stack(StackName="full", TemplateBody=body({"B": BUCKET}, Name={"Ref": "B"}))
    client("s3").put_object(Bucket=outputs(stacks, "full")["Name"], Key="k", Body=b"x")
    stacks.delete_stack(StackName="full")
    assert stack(stacks, "full")["StackStatus"] == "DELETE_FAILED"


def test_a_recreated_stack_fails_on_its_retained_bucket(stacks: Any, client: Callable[..., Any]) -> None:
    bucket = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "kept-bucket"}, "DeletionPolicy": "Retain"}
    stacks.create_stack(StackName="again", TemplateBody=body({"B": bucket}))
    stacks.delete_stack(StackName="again")
    stacks.create_stack(StackName="again", TemplateBody=body({"B": bucket}))
    failed = stack(stacks, "again")
    assert failed["StackStatus"] == "ROLLBACK_COMPLETE"
    assert "identifier 'kept-bucket' already exists" in failed["StackStatusReason"]
    assert "kept-bucket" in [each["Name"] for each in client("s3").list_buckets()["Buckets"]]


def test_retain_except_on_create_keeps_a_resource_unless_the_creation_failed(
    stacks: Any, client: Callable[..., Any]
) -> None:
    def group(name: str) -> dict[str, Any]:
        properties = {"LogGroupName": name}
        return {"Type": "AWS::Logs::LogGroup", "Properties": properties, "DeletionPolicy": "RetainExceptOnCreate"}

    stacks.create_stack(StackName="outlived", TemplateBody=body({"G": group("/outlives")}))
    stacks.delete_stack(StackName="outlived")
    stacks.create_stack(
        StackName="failed-early", TemplateBody=body({"G": group("/goes"), "U": {**UNKNOWN, "DependsOn": "G"}})
    )
    groups = [each["logGroupName"] for each in client("logs").describe_log_groups()["logGroups"]]
    assert "/outlives" in groups
    assert "/goes" not in groups


def test_change_sets_with_the_same_name_belong_to_their_stacks(stacks: Any) -> None:
    for name in ("one", "two"):
        stacks.create_change_set(
            StackName=name,
            ChangeSetName="deploy",
            ChangeSetType="CREATE",
            TemplateBody=body({"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": f"queue-{name}"}}}),
        )
    stacks.execute_change_set(StackName="one", ChangeSetName="deploy")
    assert stack(stacks, "one")["StackStatus"] == "CREATE_COMPLETE"
    assert stack(stacks, "two")["StackStatus"] == "REVIEW_IN_PROGRESS"
    stacks.delete_change_set(StackName="two", ChangeSetName="deploy")
    with pytest.raises(stacks.exceptions.ChangeSetNotFoundException):
        stacks.describe_change_set(StackName="two", ChangeSetName="deploy")


def test_a_change_set_lists_the_changed_properties(stacks: Any) -> None:
    topic = {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "a", "DisplayName": "one"}}
    stacks.create_stack(StackName="named", TemplateBody=json.dumps({"Resources": {"Topic": topic}}))
    topic["Properties"] = {"TopicName": "a", "DisplayName": "two"}
    body = json.dumps({"Resources": {"Topic": topic}})
    stacks.create_change_set(StackName="named", ChangeSetName="c", ChangeSetType="UPDATE", TemplateBody=body)
    (change,) = stacks.describe_change_set(StackName="named", ChangeSetName="c")["Changes"]
    (detail,) = change["ResourceChange"]["Details"]
    assert (detail["Target"]["Attribute"], detail["Target"]["Name"]) == ("Properties", "DisplayName")


def test_a_change_set_without_changes_fails_with_the_reason(stacks: Any) -> None:
    template = body({"Q": {"Type": "AWS::SQS::Queue", "Properties": {}}})
    stacks.create_stack(StackName="same", TemplateBody=template)
    stacks.create_change_set(StackName="same", ChangeSetName="again", ChangeSetType="UPDATE", TemplateBody=template)
    described = stacks.describe_change_set(StackName="same", ChangeSetName="again")
    assert described["Status"] == "FAILED"
    assert "didn't contain changes" in described["StatusReason"]


def test_batch_environment_queue_and_definition_deploy_and_update(stacks: Any, client: Callable[..., Any]) -> None:
    network = {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {
                "VpcId": {"Ref": "Vpc"},
                "CidrBlock": "10.0.0.0/24",
                "AvailabilityZone": {"Fn::Select": [0, {"Fn::GetAZs": ""}]},
            },
        },
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "g", "VpcId": {"Ref": "Vpc"}},
        },
    }
    place = {
        "Type": "FARGATE",
        "MaxvCpus": 4,
        "Subnets": [{"Ref": "Subnet"}],
        "SecurityGroupIds": [{"Fn::GetAtt": ["Group", "GroupId"]}],
    }
    environment = {
        "Type": "AWS::Batch::ComputeEnvironment",
        "Properties": {"Type": "managed", "ComputeResources": place},
    }
    order = [{"ComputeEnvironment": {"Fn::GetAtt": ["Environment", "ComputeEnvironmentArn"]}, "Order": 1}]
    queue: dict[str, Any] = {
        "Type": "AWS::Batch::JobQueue",
        "Properties": {"JobQueueName": "q", "Priority": 1, "State": "ENABLED", "ComputeEnvironmentOrder": order},
    }
    resources = {**network, "Environment": environment, "Queue": queue}
    stacks.create_stack(StackName="before", TemplateBody=body({**network, "Environment": environment}))
    assert stack(stacks, "before")["StackStatus"] == "CREATE_COMPLETE"
    stacks.delete_stack(StackName="before")  # Batch's service-linked role exists now
    stacks.create_stack(StackName="batch", TemplateBody=body(resources, Queue={"Ref": "Queue"}))
    assert stack(stacks, "batch")["StackStatus"] == "CREATE_COMPLETE", stack(stacks, "batch")["StackStatusReason"]
    arn = outputs(stacks, "batch")["Queue"]
    found = client("batch").describe_job_queues(jobQueues=["q"])["jobQueues"][0]
    assert (found["jobQueueArn"], found["priority"]) == (arn, 1)
    urgent = {**queue, "Properties": {**queue["Properties"], "Priority": 9}}
    stacks.update_stack(StackName="batch", TemplateBody=body({**resources, "Queue": urgent}, Queue={"Ref": "Queue"}))
    assert client("batch").describe_job_queues(jobQueues=["q"])["jobQueues"][0]["priority"] == 9
    assert outputs(stacks, "batch")["Queue"] == arn
    stacks.delete_stack(StackName="batch")
    assert client("batch").describe_compute_environments()["computeEnvironments"] == []


def test_service_queues_are_created_updated_and_deleted(stacks: Any, client: Callable[..., Any]) -> None:
    def resources(most: int) -> dict[str, Any]:
        limits = [{"CapacityUnit": "ml.m5.large", "MaxCapacity": most}]
        environment = {"ServiceEnvironmentName": "s", "ServiceEnvironmentType": "SAGEMAKER_TRAINING"}
        queue: dict[str, Any] = {"JobQueueName": "s", "JobQueueType": "SAGEMAKER_TRAINING", "Priority": 1}
        queue["SchedulingPolicyArn"] = {"Fn::GetAtt": ["Policy", "Arn"]}
        order = {"Order": 1, "ServiceEnvironment": {"Fn::GetAtt": ["Environment", "ServiceEnvironmentArn"]}}
        share: dict[str, Any] = {"QuotaShareName": "research", "JobQueue": {"Fn::GetAtt": ["Queue", "JobQueueArn"]}}
        share["PreemptionConfiguration"] = {"InSharePreemption": "DISABLED"}
        strategy = {"Strategy": "RESERVE" if most == 1 else "LEND_AND_BORROW"}
        properties = {
            "ServiceEnvironment": {**environment, "CapacityLimits": limits},
            "SchedulingPolicy": {"Name": "s", "QuotaSharePolicy": {"IdleResourceAssignmentStrategy": "FIFO"}},
            "JobQueue": {**queue, "ServiceEnvironmentOrder": [order]},
            "QuotaShare": {**share, "CapacityLimits": limits, "ResourceSharingConfiguration": strategy},
        }
        names = {"ServiceEnvironment": "Environment", "SchedulingPolicy": "Policy", "JobQueue": "Queue"}
        return {
            names.get(kind, kind): {"Type": f"AWS::Batch::{kind}", "Properties": p} for kind, p in properties.items()
        }

    batch = client("batch")
    stacks.create_stack(StackName="services", TemplateBody=body(resources(1)))
    assert stack(stacks, "services")["StackStatus"] == "CREATE_COMPLETE", stack(stacks, "services")["StackStatusReason"]
    (queue,) = batch.describe_job_queues(jobQueues=["s"])["jobQueues"]
    (environment,) = batch.describe_service_environments()["serviceEnvironments"]
    assert queue["serviceEnvironmentOrder"][0]["serviceEnvironment"] == environment["serviceEnvironmentArn"]
    stacks.update_stack(StackName="services", TemplateBody=body(resources(2)))
    assert stack(stacks, "services")["StackStatus"] == "UPDATE_COMPLETE", stack(stacks, "services")["StackStatusReason"]
    (environment,) = batch.describe_service_environments()["serviceEnvironments"]
    assert environment["capacityLimits"] == [{"capacityUnit": "ml.m5.large", "maxCapacity": 2}]
    stacks.delete_stack(StackName="services")
    assert batch.describe_service_environments()["serviceEnvironments"] == []
    assert batch.describe_job_queues(jobQueues=["s"])["jobQueues"] == []


def test_availability_zones_belong_to_the_stacks_region(client: Callable[..., Any]) -> None:
    there = client("cloudformation", "eu-west-1")
    parameter = {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Name": "zone", "Type": "String", "Value": {"Fn::Select": [0, {"Fn::GetAZs": ""}]}},
    }
    there.create_stack(StackName="zones", TemplateBody=body({"P": parameter}))
    assert client("ssm", "eu-west-1").get_parameter(Name="zone")["Parameter"]["Value"] == "eu-west-1a"


def test_an_export_can_be_imported_by_a_later_stack(stacks: Any, client: Callable[..., Any]) -> None:
    exported = {"Value": "hello", "Export": {"Name": "greeting"}}
    queue = {"Type": "AWS::SQS::Queue", "Properties": {}}
    stacks.create_stack(
        StackName="exporter", TemplateBody=json.dumps({"Resources": {"Q": queue}, "Outputs": {"E": exported}})
    )
    parameter = {
        "Type": "AWS::SSM::Parameter",
        "Properties": {"Name": "imported", "Type": "String", "Value": {"Fn::ImportValue": "greeting"}},
    }
    stacks.create_stack(StackName="importer", TemplateBody=body({"P": parameter}))
    assert client("ssm").get_parameter(Name="imported")["Parameter"]["Value"] == "hello"


def test_a_revert_drift_change_set_restores_deleted_resources(stacks: Any, client: Callable[..., Any]) -> None:
    s3, iam = client("s3"), client("iam")
    may = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}
    resources = {
        "B": {**BUCKET, "Properties": {**BUCKET["Properties"], "BucketName": "drifts"}},  # type: ignore[dict-item]  # templates have no type
        "R": {
            "Type": "AWS::IAM::Role",
            "Properties": {"RoleName": "drifts", "AssumeRolePolicyDocument": trust("lambda.amazonaws.com")},
        },
        "P": {
            "Type": "AWS::IAM::Policy",
            "Properties": {"PolicyName": "may", "PolicyDocument": may, "Roles": [{"Ref": "R"}]},
        },
    }
    template = body(resources)
    named: dict[str, Any] = {"TemplateBody": template, "Capabilities": ["CAPABILITY_NAMED_IAM"]}
    stacks.create_stack(StackName="drifts", **named)

    def update(**options: str) -> str:
        asked = {"StackName": "drifts", "ChangeSetName": f"c{len(options)}", **options}
        stacks.create_change_set(**asked, **named, ChangeSetType="UPDATE")
        found = stacks.describe_change_set(StackName="drifts", ChangeSetName=asked["ChangeSetName"])
        if found["Status"] == "CREATE_COMPLETE":
            stacks.execute_change_set(StackName="drifts", ChangeSetName=asked["ChangeSetName"])
        return str(found["Status"])

    s3.delete_bucket(Bucket="drifts")
    iam.delete_role_policy(RoleName="drifts", PolicyName="may")
    assert update() == "FAILED", "the template has not changed"
    assert "drifts" not in {bucket["Name"] for bucket in s3.list_buckets()["Buckets"]}
    assert update(DeploymentMode="REVERT_DRIFT") == "CREATE_COMPLETE"
    assert stack(stacks, "drifts")["StackStatus"] == "UPDATE_COMPLETE"
    assert s3.get_bucket_versioning(Bucket="drifts")["Status"] == "Enabled"
    assert iam.list_role_policies(RoleName="drifts")["PolicyNames"] == ["may"]
    iam.delete_role_policy(RoleName="drifts", PolicyName="may")
    iam.delete_role(RoleName="drifts")
    update(DeploymentMode="REVERT_DRIFT")
    assert iam.list_role_policies(RoleName="drifts")["PolicyNames"] == ["may"]
