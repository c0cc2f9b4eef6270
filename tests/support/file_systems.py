"""File systems: a VPC, and file systems of EFS and FSx for Lustre in it, created through AWS's APIs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Client = Callable[..., Any]
REGION = "us-east-1"


@dataclass(frozen=True)
class Network:
    """A VPC with two subnets in different zones, and a security group that lets all traffic out and none in."""

    vpc: str
    subnets: list[str]
    group: str

    def config(self) -> dict[str, Any]:
        """Return the VpcConfig of a training job."""
        return {"Subnets": self.subnets, "SecurityGroupIds": [self.group]}


def a_network(client: Client) -> Network:
    ec2 = client("ec2", REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"{REGION}{zone}")
        for n, zone in enumerate("ab")
    ]
    group = ec2.create_security_group(VpcId=vpc, GroupName="hosts", Description="hosts")["GroupId"]
    return Network(vpc, [made["Subnet"]["SubnetId"] for made in subnets], group)


def an_efs(client: Client, where: Network, zones: int = 2) -> str:
    """Create a file system with mount targets in the first `zones` subnets, and return its id."""
    api = client("efs", REGION)
    name = str(api.create_file_system(CreationToken=f"{where.vpc}-{zones}")["FileSystemId"])
    for subnet in where.subnets[:zones]:
        api.create_mount_target(FileSystemId=name, SubnetId=subnet, SecurityGroups=[where.group])
    return name


def a_lustre(client: Client, where: Network, kind: str = "SCRATCH_1") -> str:
    made = client("fsx", REGION).create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=where.subnets[:1],
        SecurityGroupIds=[where.group],
        LustreConfiguration={"DeploymentType": kind},
    )
    return str(made["FileSystem"]["FileSystemId"])


def admit(client: Client, where: Network, first: int, last: int, **peer: Any) -> None:
    """Add an inbound rule to the group, by default for traffic from the group itself."""
    peer = peer or {"UserIdGroupPairs": [{"GroupId": where.group}]}
    rule = {"IpProtocol": "tcp", "FromPort": first, "ToPort": last, **peer}
    client("ec2", REGION).authorize_security_group_ingress(GroupId=where.group, IpPermissions=[rule])
