"""CloudFormation: deploys real templates through the real CDK CLI; a failed resource fails the deployment.

moto 5.2.5 resolves templates and stores stacks, and both are kept. Four of its behaviours are replaced: it skips
unknown resource types, drops most properties of the types it knows, deletes and creates where AWS updates in place, and
reports success if a resource raised an exception. Here, a resource is provisioned through its service's API, as on AWS
(`providers`), or by moto's own model if it has no provider (`native`); any other type fails.

Not built: drift detection, nested stacks, stack sets, macros, rollback triggers, `--no-rollback`, stack policies.
"""

from typing import TYPE_CHECKING

from moto.cloudformation import models, responses, utils

from localcloud.cloudformation.context import Clients
from localcloud.cloudformation.providers import custom
from localcloud.cloudformation.stacks import StackBackend
from localcloud.cloudformation.templates import template_from_url

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud


def install(cloud: "LocalCloud") -> None:
    """Replace moto's CloudFormation backend with ours.

    Three modules of moto import the function `get_stack_from_s3_url` by name; it mistakes an address such as
    http://127.0.0.1:PORT/bucket/key for a virtual-hosted-style one.
    """
    StackBackend.clients = Clients(cloud)
    cloud.pages[custom.PAGE] = custom.serve_answers
    cloud.on_stop(custom.give_up)
    cloud.replace(models.cloudformation_backends, backend=StackBackend)
    for module in (models, responses, utils):
        cloud.replace(module, get_stack_from_s3_url=template_from_url)
