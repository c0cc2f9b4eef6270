"""SageMaker: the network of training jobs in a VPC."""

from conformance.aws import Aws
from conformance.claim import documented
from conformance.sources import page

_TRAIN_VPC = "https://docs.aws.amazon.com/sagemaker/latest/dg/train-vpc.html"
_USED_BY = "traingrid/deploy/checkup/job_network.py"
_WHY = "it takes instances with EFA"


@documented(
    page(_TRAIN_VPC, "should have at least 5 private IP addresses"),
    used_by=_USED_BY,
    why=_WHY,
    not_modelled="addresses of subnets: training jobs use none",
)
def hosts_need_addresses(aws: Aws) -> None:
    """Each host of a training job in a VPC needs two private addresses of its subnets, and five with EFA."""


@documented(
    page(
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/create-efa.html",
        "outbound traffic to and from the security group itself",
    ),
    page(_TRAIN_VPC, "connections allow all traffic from the same security group"),
    page(
        "https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html",
        "allows Elastic Fabric Adapter (EFA) traffic with the destination of the same",
    ),
    used_by=_USED_BY,
    why=_WHY,
    not_modelled="EFA, and the security groups that it needs",
)
def efa_needs_a_group_for_its_own_members(aws: Aws) -> None:
    """EFA needs a security group that allows all inbound and outbound traffic to and from itself."""
