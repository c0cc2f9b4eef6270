"""Change sets, looked up by stack and name as in AWS's API."""

from types import SimpleNamespace

from moto.cloudformation import urls
from moto.cloudformation.models import ChangeSet
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, EmptyResult

from localcloud.cloudformation.template_rules import MAX_BODY, MAX_OBJECT, check_name, check_size, check_template
from localcloud.cloudformation.templates import parse


class ChangeSetNotFoundError(ServiceException):
    """CloudFormation's error code ChangeSetNotFound. The CDK CLI waits for it after a deletion."""

    code = "ChangeSetNotFoundException"


def _add_changed_properties(change_set: ChangeSet) -> None:
    """Add the differing properties to every change of a resource; `cdk diff` shows only these properties.

    localcloud does not determine whether the resource would be replaced, so it reports "Conditionally", as AWS does
    in undetermined cases.
    """
    before = change_set.stack.template_dict.get("Resources", {})
    after = change_set.template_dict.get("Resources", {})
    for change in change_set.changes:
        if change.action != "Modify":
            continue
        old = before.get(change.logical_resource_id, {}).get("Properties", {})
        new = after.get(change.logical_resource_id, {}).get("Properties", {})
        change.details = [
            {"Target": {"Attribute": "Properties", "Name": name, "RequiresRecreation": "Conditionally"}}
            for name in sorted({*old, *new})
            if old.get(name) != new.get(name)
        ]


class StackResponse(CloudFormationResponse):
    """Looks up change sets by stack. moto 5.2.5 uses the name alone, and the CDK reuses one name for every stack."""

    def create_stack(self) -> ActionResult:
        """CreateStack."""
        check_name(self._get_param("StackName"))
        self._check_template()
        return super().create_stack()

    def update_stack(self) -> ActionResult:
        """UpdateStack."""
        self._check_template()
        return super().update_stack()

    def create_change_set(self) -> ActionResult:
        """CreateChangeSet. Stores ImportExistingResources for the execution."""
        if self._get_param("ChangeSetType", "UPDATE") != "UPDATE":
            check_name(self._get_param("StackName"))
        self._check_template()
        result = super().create_change_set()
        change_set = self.cloudformation_backend.change_sets[result.result["Id"]]
        change_set.importing = bool(self._get_bool_param("ImportExistingResources", False))
        _add_changed_properties(change_set)
        change_set.reverting = self._get_param("DeploymentMode") == "REVERT_DRIFT"
        if change_set.reverting and change_set.stack._deployment("UPDATE").drifted():
            change_set.status, change_set.execution_status = "CREATE_COMPLETE", "AVAILABLE"
            change_set.status_reason = None
        return result

    def delete_stack(self) -> ActionResult:
        """DeleteStack, with its DeletionMode."""
        by_force = self._get_param("DeletionMode") == "FORCE_DELETE_STACK"
        self.cloudformation_backend.delete_stack(self._get_param("StackName"), by_force=by_force)
        return EmptyResult()

    def describe_change_set(self) -> ActionResult:
        """DescribeChangeSet."""
        self._put_identifier()
        return super().describe_change_set()

    def execute_change_set(self) -> ActionResult:
        """ExecuteChangeSet."""
        self._put_identifier()
        return super().execute_change_set()

    def delete_change_set(self) -> ActionResult:
        """DeleteChangeSet; succeeds if the change set does not exist."""
        try:
            self._put_identifier()
        except ChangeSetNotFoundError:
            return ActionResult({})
        return super().delete_change_set()

    def _check_template(self) -> None:
        """Check the template of a request that has one; the previous template of a stack was checked before."""
        if url := self._get_param("TemplateURL"):
            text, limit = self._get_stack_from_s3_url(url), MAX_OBJECT
        elif not (text := self._get_param("TemplateBody")):
            return
        else:
            limit = MAX_BODY
        check_size(text, limit)
        check_template(parse(text), self._get_param("Capabilities", []))

    def _put_identifier(self) -> None:
        """Replace the name in the request with the ARN of the stack's change set."""
        name, stack = self._get_param("ChangeSetName"), self._get_param("StackName")
        for identifier, other_set in reversed(self.cloudformation_backend.change_sets.items()):
            if name == identifier or (
                name == other_set.change_set_name and stack in (other_set.stack_name, other_set.stack_id)
            ):
                self.params["ChangeSetName"] = identifier
                return
        raise ChangeSetNotFoundError(f"ChangeSet [{name}] does not exist")


URLS = SimpleNamespace(
    url_bases=urls.url_bases,
    url_paths={
        path: StackResponse.dispatch if handler == CloudFormationResponse.dispatch else handler
        for path, handler in urls.url_paths.items()
    },
)
"""moto's routes, with our response class instead of moto's."""
