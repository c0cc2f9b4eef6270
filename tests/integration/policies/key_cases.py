"""Permissions on the keys that encrypt a grid: roles may use them only through certain services."""

from collections.abc import Iterator

from localcloud.iam.request_keys import Context
from tests.integration.policies.case import ACTION, RESOURCE, Caller, Case
from tests.integration.policies.grid import ACCOUNT, FREE, HOME, INSIDE, YOUR_KEY

USES = ("kms:Decrypt", "kms:GenerateDataKey")
VIA, ALIAS = "StringEquals kms:ViaService", "ForAnyValue:StringEquals kms:ResourceAliases"
CONTROL, IMAGES = (f"arn:aws:kms:{HOME}:{ACCOUNT}:key/{name}Key" for name in ("Control", "Images"))


def data_key(region: str) -> str:
    return f"arn:aws:kms:{region}:{ACCOUNT}:key/DataKey"


def through(service: str, region: str = HOME, alias: str = "") -> Context:
    context: Context = {"kms:ViaService": f"{service}.{region}.amazonaws.com"}
    return context | ({"kms:ResourceAliases": [alias]} if alias else {})


def cases() -> Iterator[Case]:
    for role in ("intake", "recorder", "registrar", "region guard"):
        yield from _home_key(Caller(role), CONTROL, ("s3", "dynamodb", "sqs"))
    yield from _home_key(Caller("reconciler"), CONTROL, ("s3", "dynamodb", "sqs", "sns"))
    yield from _home_key(Caller("child"), CONTROL, ("s3", "dynamodb"))
    yield from _home_key(Caller("image builder"), IMAGES, ("sqs",))
    yield from _child()
    yield from _registrar()
    yield from _container()


def _home_key(caller: Caller, key: str, services: tuple[str, ...]) -> Iterator[Case]:
    for action in USES:
        for service in services:
            yield caller.may(f"use its stack's key through {service}", action, key, through(service))
        yield caller.may_not("use it directly", action, key, breaks=VIA)
        yield caller.may_not("use it through Lambda", action, key, through("lambda"), breaks=VIA)
        yield caller.may_not("use another key", action, f"{key}2", through(services[0]), breaks=RESOURCE)
    yield caller.may_not("delete it", "kms:ScheduleKeyDeletion", key)
    yield caller.may_not("grant it to others", "kms:CreateGrant", key)


def _child() -> Iterator[Case]:
    child, ours = Caller("child"), "alias/traingrid"
    for action in USES:
        for region in (INSIDE, FREE):
            key, via = data_key(region), through("s3", region, ours)
            yield child.may(f"read and write ManifestFiles in {region}", action, key, via)
        yield child.may_not(
            "use a key without the grid's alias", action, data_key(FREE), through("s3", FREE), breaks=ALIAS
        )
        other = through("s3", FREE, "alias/theirs")
        yield child.may_not("use a key with another alias", action, data_key(FREE), other, breaks=ALIAS)
        secrets = through("secretsmanager", FREE, ours)
        yield child.may_not("use it through another service", action, data_key(FREE), secrets, breaks=VIA)
        abroad = data_key("eu-west-1")
        yield child.may_not("use one in another Region", action, abroad, through("s3", FREE, ours), breaks=RESOURCE)


def _registrar() -> Iterator[Case]:
    registrar, ours = Caller("registrar"), "alias/traingrid"
    for region in (INSIDE, FREE):
        key, via = data_key(region), through("s3", region, ours)
        yield registrar.may(f"read an encrypted marker in {region}", "kms:Decrypt", key, via)
        yield registrar.may_not("encrypt data", "kms:GenerateDataKey", key, via, breaks=ACTION)
    other = through("s3", FREE, "alias/theirs")
    yield registrar.may_not("use a key with another alias", "kms:Decrypt", data_key(FREE), other, breaks=ALIAS)
    secrets = through("secretsmanager", FREE, ours)
    yield registrar.may_not("use it through another service", "kms:Decrypt", data_key(FREE), secrets, breaks=VIA)
    yield registrar.may(
        "read a marker that a key of grid.yaml encrypts", "kms:Decrypt", YOUR_KEY, through("s3", INSIDE)
    )
    yield registrar.may_not("decrypt directly with a key of grid.yaml", "kms:Decrypt", YOUR_KEY, breaks=VIA)


def _container() -> Iterator[Case]:
    container = Caller("training job")
    for action in USES:
        yield container.may("read data and write results", action, data_key(INSIDE), through("s3", INSIDE))
        yield container.may_not("use the key directly", action, data_key(INSIDE), breaks=VIA)
        yield container.may_not("use the control plane's key", action, CONTROL, through("s3"), breaks=RESOURCE)
        yield container.may_not("use another Region's key", action, data_key(FREE), through("s3"), breaks=RESOURCE)
    yield Caller("child").may(
        "read data to copy with a key of grid.yaml", "kms:Decrypt", YOUR_KEY, through("s3", INSIDE)
    )
    yield container.may("read data encrypted with a key of grid.yaml", "kms:Decrypt", YOUR_KEY, through("s3", INSIDE))
    yield container.may_not("decrypt directly with a key of grid.yaml", "kms:Decrypt", YOUR_KEY, breaks=VIA)
    for action in ("kms:Encrypt", "kms:DescribeKey"):
        yield container.may("let SageMaker encrypt results", action, data_key(INSIDE))
        yield container.may_not("encrypt with the control plane's key", action, CONTROL, breaks=RESOURCE)
        yield container.may_not("encrypt with another Region's key", action, data_key(FREE), breaks=RESOURCE)
    writing = through("s3", INSIDE)
    yield container.may_not("write with a key of grid.yaml", "kms:GenerateDataKey", YOUR_KEY, writing, breaks=RESOURCE)
