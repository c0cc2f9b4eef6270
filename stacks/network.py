"""The network of the Batch children: out to AWS by HTTPS, and nothing in."""

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.grants import KEYS_OF_AWS, acknowledge, same_account


class Network(Construct):
    """A VPC of public subnets in two availability zones.

    A child calls SageMaker in every training Region. Interface endpoints reach their own Region only, and a NAT gateway
    costs $32 a month while nothing runs, so children have public addresses ($0.005 an hour each) behind a security
    group that lets nothing in. S3 and DynamoDB are reached by gateway endpoints, which are free.
    """

    def __init__(self, scope: Construct, identifier: str, *, log_retention: logs.RetentionDays) -> None:
        super().__init__(scope, identifier)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=0,
            subnet_configuration=[
                # Fargate asks for a public address itself; nothing else that lands here shall get one.
                ec2.SubnetConfiguration(
                    name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=20, map_public_ip_on_launch=False
                )
            ],
            restrict_default_security_group=False,
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
                "DynamoDb": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
            },
        )
        acknowledge(
            self.vpc,
            "NIST.800.53.R5-VPCDefaultSecurityGroupClosed",
            "Emptying the default security group takes a custom resource. Nothing is ever placed in that group, and it "
            "admits only its own members",
        )
        acknowledge(
            self.vpc,
            "NIST.800.53.R5-VPCNoUnrestrictedRouteToIGW",
            "Children call SageMaker in every training Region; the security group lets HTTPS out and nothing in",
        )
        self._record_flows(log_retention)
        self.security_group = ec2.SecurityGroup(
            self,
            "ChildrenSecurityGroup",
            vpc=self.vpc,
            description="Batch children: HTTPS to AWS, nothing in",
            allow_all_outbound=False,
        )
        self.security_group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "HTTPS to the AWS APIs")

    def _record_flows(self, log_retention: logs.RetentionDays) -> None:
        """Record who talked to whom, in a log group that goes with the stack."""
        stack = Stack.of(self)
        flows = same_account(f"arn:aws:ec2:{stack.region}:{stack.account}:vpc-flow-log/*")
        role = iam.Role(
            self,
            "FlowLogRole",
            assumed_by=iam.ServicePrincipal("vpc-flow-logs.amazonaws.com", conditions=flows),
            description="Writes the flow logs of the Batch children's network",
        )
        group = logs.LogGroup(self, "FlowLogGroup", retention=log_retention, removal_policy=RemovalPolicy.DESTROY)
        acknowledge(group, "NIST.800.53.R5-CloudWatchLogGroupEncrypted", KEYS_OF_AWS, checkov="CKV_AWS_158")
        self.vpc.add_flow_log("FlowLog", destination=ec2.FlowLogDestination.to_cloud_watch_logs(group, role))
