"""CloudFormation: real templates deploy through the real CDK CLI, and a failed resource is a failed deploy.

moto 5.2.5 resolves templates and keeps stacks, and both stay. What it lacks is replaced: it skips unknown resource
types, drops most properties of the ones it knows, deletes and creates where AWS updates in place, and reports success
where a resource raised. Here a resource is provisioned through its service's own API, as on AWS (`providers`), or
where there is no provider by moto's own model (`native`); a type that neither knows fails.

Not built: drift, nested stacks, stack sets, macros, rollback triggers, `--no-rollback`, stack policies.
"""

from typing import TYPE_CHECKING

from moto.cloudformation import models, responses, utils

from localcloud.cloudformation.context import Clients
from localcloud.cloudformation.providers import custom
from localcloud.cloudformation.stacks import StackBackend
from localcloud.cloudformation.templates import template_from_url

if TYPE_CHECKING:
    from localcloud.server import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Put our backend in moto's place.

    `get_stack_from_s3_url` is a function that three modules of moto import by name; it takes an address like
    http://127.0.0.1:PORT/bucket/key for a host-style one.
    """
    StackBackend.clients = Clients(cloud)
    cloud.pages[custom.PAGE] = custom.serve_answers
    cloud.on_stop(custom.give_up)
    models.cloudformation_backends.backend = StackBackend
    for module in (models, responses, utils):
        module.get_stack_from_s3_url = template_from_url
