"""Network: the `network` section of grid.yaml, with the VPC in which Batch children run."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from traingrid.grid.field_types import SecurityGroupId, SubnetId, broken_rule
from traingrid.grid.part import GridPart

# EC2's format of ids (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html).
VpcId = Annotated[str, StringConstraints(pattern=r"^vpc-[0-9a-f]{8,17}$", strict=True)]


ZoneName = Annotated[str, StringConstraints(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9][a-z]$", strict=True)]


class Network(GridPart):
    """The network of Batch children: public or private subnets of a VPC that the control stack creates, or your own.

    Children call SageMaker in every training Region, so they need access to the AWS APIs there. They accept no inbound
    connections.
    """

    kind: Literal["public", "private", "existing"] = Field(default="public", examples=["private"])
    """public: each child has a public address, no cost while none runs. private: no public addresses; a NAT gateway if
    a training Region is not the home Region. existing: your own subnets, with a route to the AWS APIs."""
    vpc: VpcId | None = Field(default=None, examples=["vpc-0a1b2c3d4e5f60718"])
    """Your VPC in the home Region."""
    subnets: tuple[SubnetId, ...] = Field(default=(), max_length=16, examples=[["subnet-0a1b2c3d4e5f60718"]])
    """Subnets of that VPC; at most 16 (subnets of ComputeResource in the Batch API reference)."""
    security_groups: tuple[SecurityGroupId, ...] = Field(default=(), max_length=5, examples=[["sg-0a1b2c3d4e5f60718"]])
    """Your security groups for the children; by default one is created that allows only outbound HTTPS."""
    zones: tuple[ZoneName, ...] = Field(default=(), examples=[["us-east-1a", "us-east-1b"]])
    """Two availability zones of the home Region for the subnets of a public or private network; by default the first
    two. A name refers to another zone in each account. Some zones do not support Fargate
    (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/AWS_Fargate-Regions.html), or lack an endpoint of a
    private network (https://github.com/terraform-aws-modules/terraform-aws-vpc/issues/785)."""
    public_addresses: bool = Field(default=False, strict=True, examples=[True])
    """True if children get public addresses in your subnets, because these have no other route to the AWS APIs."""
    reconciler: bool = Field(default=False, strict=True, examples=[True])
    """True if the reconciler, too, runs in your subnets, and so reaches clusters of EKS with a private endpoint. The
    subnets then need a NAT gateway, because a function in a subnet has no public address
    (https://docs.aws.amazon.com/lambda/latest/dg/configuration-vpc-internet.html)."""

    @model_validator(mode="after")
    def _yours_or_ours(self) -> Self:
        """Reject keys that apply only to an existing network, or only to one that traingrid creates."""
        if self.kind == "existing":
            if self.vpc is None:
                raise broken_rule("an existing network needs its vpc and subnets", at="vpc", example=True)
            if not self.subnets:
                raise broken_rule(
                    "an existing network needs the subnets that children run in", at="subnets", example=True
                )
            if self.zones:
                raise broken_rule("an existing network has the zones of its subnets; remove zones", at="zones")
            if self.reconciler and self.public_addresses:
                rule = "the reconciler cannot have a public address; use subnets with a NAT gateway for it and children"
                raise broken_rule(rule, at="reconciler")
            return self
        if self.zones and len(set(self.zones)) != 2:
            raise broken_rule("zones must name two different availability zones", at="zones", example=True)
        for key in ("vpc", "subnets", "security_groups", "public_addresses", "reconciler"):
            if getattr(self, key):
                raise broken_rule(f"this key requires `kind: existing`; this network is {self.kind}", at=key)
        return self
