"""SageMaker Model Registry: groups of models and their versions."""

from contextlib import suppress

from botocore.exceptions import ClientError

from conformance.aws import Aws, refused
from conformance.claim import claim, documented
from conformance.sources import model, page

_USED_BY = "traingrid/api/model_registry.py"
_SDK = "https://github.com/aws/sagemaker-python-sdk/blob/v2.232.0/src/sagemaker/session.py"
_TERRAFORM = "https://github.com/hashicorp/terraform-provider-aws/blob/050ac11163cab8cdae5936a7f40b0e528ff780df/"


@claim(page(_SDK, '["Cannot create already existing", "already exists"]'), used_by=_USED_BY)
def model_group_is_created_once(aws: Aws) -> None:
    """A second CreateModelPackageGroup of a name is refused with ValidationException, and the words "already exist"."""
    sagemaker, name = aws.client("sagemaker"), aws.name("group")

    def delete() -> None:
        with suppress(ClientError):
            sagemaker.delete_model_package_group(ModelPackageGroupName=name)

    aws.undo.later(f"model group {name}", delete)
    sagemaker.create_model_package_group(ModelPackageGroupName=name, Tags=aws.tags())
    with refused("ValidationException", text="already exist"):
        sagemaker.create_model_package_group(ModelPackageGroupName=name)


@claim(
    page(
        f"{_TERRAFORM}internal/service/sagemaker/model_package_group.go",
        'ErrMessageContains(err, "ValidationException", "does not exist")',
    ),
    used_by=_USED_BY,
)
def missing_model_group_is_refused(aws: Aws) -> None:
    """DescribeModelPackageGroup of a missing group is refused with ValidationException, and the word "exist"."""
    with refused("ValidationException", text="exist"):
        aws.client("sagemaker").describe_model_package_group(ModelPackageGroupName=aws.name("none"))


@documented(
    model("sagemaker", "CreateModelPackageInput", "A unique token that guarantees that the call to this API"),
    used_by=_USED_BY,
    why="a check would need an image that SageMaker accepts for inference",
)
def token_creates_one_version(aws: Aws) -> None:
    """Two CreateModelPackage requests with the same ClientToken create one version of the group."""
