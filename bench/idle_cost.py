"""`make idle-cost`: computes the monthly cost of an idle grid from its templates.

It counts the resources in the templates, priced by `traingrid/deploy/prices.py`: list prices in us-east-1, without free
tiers. Values that the templates do not contain are assumed below, and the output lists them.
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from aws_cdk import App

from app import build_app
from bench.size import size
from traingrid.backoff import PASS_SECONDS
from traingrid.deploy import prices
from traingrid.deploy.prices import UnitPrice
from traingrid.grid.model import GridSettings
from traingrid.reconciler.pass_report import PassReport

PASSES = prices.HOURS * 3600 / PASS_SECONDS
SECONDS_OF_A_PASS = 3.0
"""Assumed for an idle grid, which queries all Regions concurrently; not measured in AWS."""
BYTES_OF_A_PASS = 3000
"""Assumed size of a pass's logs, from localcloud: its own line, and Lambda's lines at the start and the end."""
GB_OF_A_CATALOG = 0.1
"""Assumed size of a catalog: 100,000 rows of 1 KB. An idle cluster is billed for nothing else."""
REGIONS = (
    *("us-east-1", "us-west-2", "eu-west-1", "eu-central-1", "ap-northeast-1", "ap-southeast-2", "ca-central-1"),
    *("sa-east-1", "eu-north-1", "eu-west-2", "ap-south-1", "us-east-2"),
)
KINDS: Mapping[str, Mapping[str, Any]] = {
    "default settings": {},
    "encryption: kms": {"encryption": "kms"},
    "network: private": {"network": "private"},
    "both": {"encryption": "kms", "network": "private"},
    "catalog: dsql": {"catalog": "dsql"},
    "notifications: {}": {"notifications": {}},
}

Template = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Item:
    """An item of the bill."""

    what: str
    count: float
    price: UnitPrice

    @property
    def dollars(self) -> float:
        """Its monthly cost."""
        return self.count * self.price.dollars


def main() -> None:
    """Print the cost of grids with 1, 4 and 12 Regions, and the items of one of them."""
    counts, shown = size((1, 4, 12), (1,)), size(4, 1)
    headings = "".join(f"{f'{count} Region' + 's' * (count > 1):>12}" for count in counts)
    click.echo(f"$ per month while idle, at the list prices of us-east-1{headings}")
    for kind, settings in list(KINDS.items())[: size(None, 1)]:
        totals = [sum(item.dollars for item in idle(synthesised(a_grid(count, settings)))) for count in counts]
        click.echo(f"{kind:<55}" + "".join(f"{total:>12.2f}" for total in totals))
    click.echo(f"\nitems of a grid with default settings, number of Regions: {shown}")
    for item in idle(synthesised(a_grid(shown, {}))):
        click.echo(
            f"{item.count:>12,.2f} x {item.price.dollars:<12g} {item.dollars:>8.3f}  {item.what} ({item.price.of})"
        )
    click.echo(f"\nassumed: a pass takes {SECONDS_OF_A_PASS:g} s and logs {BYTES_OF_A_PASS} bytes")
    click.echo(f"assumed: a catalog in Aurora DSQL has {GB_OF_A_CATALOG:g} GB; without queries")
    image, stored = prices.IMAGE_STORAGE.dollars, prices.BUCKET_STORAGE.dollars
    click.echo(f"not included: ${image:.2f} per GB of images in each Region, ${stored} per GB in S3")


def a_grid(regions: int, settings: Mapping[str, Any]) -> GridSettings:
    """Return a grid with this many training Regions."""
    described = {
        "name": "traingrid",
        "home": REGIONS[0],
        "regions": dict.fromkeys(REGIONS[:regions]),
        "images": {"resnet": {"build": "training", "target": "gpu"}},
        "job": {"image": "resnet", "instance_type": "ml.p4d.24xlarge"},
    }
    return GridSettings.model_validate({**described, **settings})


def synthesised(grid: GridSettings) -> dict[str, Template]:
    """Return the templates of a grid, by stack name."""
    with tempfile.TemporaryDirectory(prefix="traingrid-cost-") as folder:
        layer = Path(folder) / "layer"
        (layer / "python").mkdir(parents=True)
        (layer / "catalog" / "python").mkdir(parents=True)
        assembly = build_app(grid, layer=layer, app=App(outdir=f"{folder}/out")).synth()
        return {stack.stack_name: stack.template for stack in assembly.stacks}


def idle(templates: Mapping[str, Template]) -> list[Item]:
    """Return the monthly items of stacks in which only passes run."""
    alarms = sum(_metrics_of(alarm) for alarm in _all(templates, "AWS::CloudWatch::Alarm"))
    boards = sum(1 for _ in _all(templates, "AWS::CloudWatch::Dashboard"))
    keys = sum(1 for _ in _all(templates, "AWS::KMS::Key"))
    gateways = sum(1 for _ in _all(templates, "AWS::EC2::NatGateway"))
    addresses = sum(1 for _ in _all(templates, "AWS::EC2::EIP"))
    clusters = sum(1 for _ in _all(templates, "AWS::DSQL::Cluster"))
    endpoints = sum(
        len(endpoint["SubnetIds"])
        for endpoint in _all(templates, "AWS::EC2::VPCEndpoint")
        if endpoint["VpcEndpointType"] == "Interface"
    )
    counted = [
        Item(what="alarms", count=alarms, price=prices.ALARM),
        Item(what="metrics of passes", count=len(PassReport().measured()), price=prices.CUSTOM_METRIC),
        Item(what="dashboards above three", count=max(0, boards - 3), price=prices.DASHBOARD),
        *_passes(templates),
        Item(what="keys", count=keys, price=prices.KEY),
        Item(what="NAT gateways", count=gateways, price=prices.NAT_GATEWAY),
        Item(what="addresses", count=addresses, price=prices.ADDRESS),
        Item(what="interface endpoints", count=endpoints, price=prices.ENDPOINT),
        Item(what="storage of an idle catalog", count=clusters * GB_OF_A_CATALOG, price=prices.CLUSTER_STORAGE),
    ]
    return [item for item in counted if item.count]


def _passes(templates: Mapping[str, Template]) -> Iterator[Item]:
    """Yield the items of scheduled functions, that is, of the reconciler."""
    for template in templates.values():
        for rule in _of(template, "AWS::Events::Rule"):
            if "ScheduleExpression" not in rule:
                continue
            for target in rule["Targets"]:
                function = template["Resources"][target["Arn"]["Fn::GetAtt"][0]]["Properties"]
                seconds = PASSES * SECONDS_OF_A_PASS * function["MemorySize"] / 1024
                yield Item(what="passes", count=PASSES, price=prices.REQUEST)
                yield Item(what="passes", count=seconds, price=prices.GB_SECOND)
                yield Item(what="scans of an empty ledger", count=PASSES, price=prices.READ)
                logged = PASSES * BYTES_OF_A_PASS / 2**30
                yield Item(what="log of passes", count=logged, price=prices.LOG_INGESTION)
                if function.get("TracingConfig", {}).get("Mode") == "Active":
                    yield Item(what="traces of passes", count=PASSES, price=prices.TRACE)


def _metrics_of(alarm: Mapping[str, Any]) -> int:
    """Return the number of metrics that an alarm evaluates, by which it is billed."""
    return sum("MetricStat" in metric for metric in alarm.get("Metrics", ())) or 1


def _all(templates: Mapping[str, Template], kind: str) -> Iterator[Mapping[str, Any]]:
    for template in templates.values():
        yield from _of(template, kind)


def _of(template: Template, kind: str) -> Iterator[Mapping[str, Any]]:
    for resource in template["Resources"].values():
        if resource["Type"] == kind:
            yield resource.get("Properties", {})


if __name__ == "__main__":
    main()
