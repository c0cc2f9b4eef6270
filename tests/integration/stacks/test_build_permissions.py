"""The permissions of the builds of images, and the resources that they leave."""

import re

from tests.integration.stacks.image_builds import REPOSITORY_ARN, ROOT
from tests.integration.stacks.templates import Template, flat, on, only, resources, statements

BUILD = "OrchestratorBuildRole"


def test_a_build_may_only_read_its_sources_push_its_image_and_report(
    builds: Template,
) -> None:
    for statement in resources(builds, "AWS::IAM::Policy").values():
        assert "ManagedPolicyArns" not in statement["Properties"]
    assert on(builds, BUILD, "ecr:PutImage") == {REPOSITORY_ARN}
    free = {action for entry in statements(builds, BUILD) if entry["Resource"] == ["*"] for action in entry["Action"]}
    assert free == {"ecr:GetAuthorizationToken"}
    (read,) = [entry for entry in statements(builds, BUILD) if "s3:GetObject" in entry["Action"]]
    assert read["Action"] == ["s3:GetObject"]
    assert len(read["Resource"]) == 1
    assert read["Resource"][0].endswith(".zip")
    (put,) = [entry for entry in statements(builds, BUILD) if "events:PutEvents" in entry["Action"]]
    assert put["Resource"] == ["arn:aws:events:<AWS::Region>:<AWS::AccountId>:event-bus/default"]
    assert put["Condition"] == {
        "ForAllValues:StringEquals": {"events:source": ["traingrid.builds"]},
        "Null": {"events:source": "false"},
    }


def test_images_are_deleted_with_their_stack_but_not_by_a_failed_build(
    grid_templates: dict[str, Template],
) -> None:
    images, builds = grid_templates["traingrid-images"], grid_templates["traingrid-builds"]
    for repository in resources(images, "AWS::ECR::Repository").values():
        assert repository["Properties"]["EmptyOnDelete"] is True
    for template in (images, builds):
        assert not [name for name, it in template["Resources"].items() if it.get("DeletionPolicy") == "Retain"]
    assert not resources(builds, "AWS::ECR::Repository")
    assert not [kind for kind in {it["Type"] for it in images["Resources"].values()} if "Custom" in kind]


def test_the_log_of_a_failed_build_survives_the_rollback(grid_templates: dict[str, Template]) -> None:
    group = only(grid_templates["traingrid-images"], "AWS::Logs::LogGroup")["LogGroupName"]
    project = only(grid_templates["traingrid-builds"], "AWS::CodeBuild::Project")
    assert project["LogsConfig"]["CloudWatchLogs"]["GroupName"] == group == "/traingrid/builds"
    stream = "arn:aws:logs:<AWS::Region>:<AWS::AccountId>:log-group:/traingrid/builds:log-stream:OrchestratorBuild/*"
    assert on(grid_templates["traingrid-builds"], BUILD, "logs:PutLogEvents") == {stream}


def test_codebuild_acts_for_this_account_only(builds: Template) -> None:
    (role,) = [role for name, role in resources(builds, "AWS::IAM::Role").items() if name.startswith(BUILD)]
    assert "ManagedPolicyArns" not in role["Properties"]
    (statement,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert flat(statement["Condition"]["StringEquals"]["aws:SourceAccount"]) == "<AWS::AccountId>"
    pattern = flat(statement["Condition"]["ArnLike"]["aws:SourceArn"])
    assert pattern == "arn:aws:codebuild:<AWS::Region>:<AWS::AccountId>:project/*"


def test_the_builder_may_start_these_builds_and_describe_these_images(builds: Template) -> None:
    (project,) = resources(builds, "AWS::CodeBuild::Project")
    for action in ("codebuild:StartBuild", "codebuild:BatchGetBuilds"):
        assert on(builds, "Builder", action) == {f"<{project}.Arn>"}
    assert on(builds, "Builder", "ecr:DescribeImages") == {REPOSITORY_ARN}


def test_the_builder_receives_every_end_of_a_build(builds: Template) -> None:
    rule = only(builds, "AWS::Events::Rule")
    detail = rule["EventPattern"]["detail"]
    (project,) = resources(builds, "AWS::CodeBuild::Project")
    assert detail["project-name"] == [{"Ref": project}]
    assert set(detail["build-status"]) == {"ENDING", "SUCCEEDED", "FAILED", "FAULT", "STOPPED", "TIMED_OUT"}
    assert set(rule["EventPattern"]["source"]) == {"aws.codebuild", "traingrid.builds"}
    assert set(rule["EventPattern"]["detail-type"]) == {"CodeBuild Build State Change", "Build Ending"}
    ask = resources(builds, "Custom::ContainerImage").popitem()[1]
    assert set(resources(builds, "AWS::Events::Rule")) < set(ask["DependsOn"])
    assert set(resources(builds, "AWS::Lambda::Permission")) < set(ask["DependsOn"])


def test_the_customer_key_of_a_bootstrap_lets_every_role_of_the_account_read_assets_through_s3() -> None:
    """The build roles have no permission for this key: its own policy allows the whole account, so none is needed."""
    template = (ROOT / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml").read_text()
    key = template[template.index("FileAssetsBucketEncryptionKey:") : template.index("Condition: CreateNewKey")]
    (everyone,) = (entry for entry in key.split("- Action:") if 'AWS: "*"' in entry)
    assert "kms:Decrypt" in everyone
    assert re.findall(r"kms:CallerAccount|kms:ViaService", everyone) == ["kms:CallerAccount", "kms:ViaService"]
