"""The quota on VPCs, which moto 5.2.5 lacks."""

from typing import TYPE_CHECKING, Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend

from localcloud.limits.quota import VPCS

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

_create_vpc = EC2Backend.create_vpc


def install(cloud: "LocalCloud") -> None:
    """Refuse VPCs beyond the quota; a Region's default VPC counts."""

    def create_vpc(self: EC2Backend, *arguments: Any, **options: Any) -> Any:
        limit = cloud.limits.value(self.account_id, self.region_name, VPCS)
        if len(self.vpcs) >= limit:
            raise VpcLimitExceededError
        return _create_vpc(self, *arguments, **options)

    cloud.replace(EC2Backend, create_vpc=create_vpc)


class VpcLimitExceededError(EC2ClientError):
    """EC2's error (https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html)."""

    def __init__(self) -> None:
        super().__init__("VpcLimitExceeded", "The maximum number of VPCs has been reached.")
