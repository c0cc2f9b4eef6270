"""Stacks and change sets: moto's backend with our deployment of resources."""

import threading
from typing import Any, ClassVar

from moto.cloudformation.exceptions import AlreadyExistsException, CloudFormationError, ValidationError
from moto.cloudformation.models import ChangeSet, CloudFormationBackend, Event, Stack
from moto.cloudformation.utils import generate_changeset_id, generate_stack_id, validate_create_change_set

from localcloud.cloudformation.change_sets import URLS
from localcloud.cloudformation.context import Clients
from localcloud.cloudformation.deployment import Deployment, DeploymentError
from localcloud.cloudformation.templates import Resources, parse

_NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."


class DeployedStack(Stack):
    """A stack of moto whose resources localcloud provisions."""

    clients: ClassVar[Clients]
    parse_template = staticmethod(parse)
    stack_status_reason: str | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.busy = threading.RLock()  # one operation at a time; the next one waits
        super().__init__(*arguments, **options)

    def _create_resource_map(self) -> Resources:
        resources = Resources(
            self.stack_id,
            self.name,
            self.parameters,
            self.tags,
            account_id=self.account_id,
            region_name=self.region_name,
            template=self.template_dict,
            cross_stack_resources=self.cross_stack_resources,
        )
        resources.load()
        return resources

    @property
    def stack_parameters(self) -> dict[str, Any]:
        """Return the parameters as given, for UsePreviousValue; moto returns the value of an SSM parameter."""
        defaults = {name: slot.get("Default") for name, slot in self.template_dict.get("Parameters", {}).items()}
        return {**defaults, **self.parameters}

    def deploy(self, template: str, parameters: dict[str, Any], kind: str, *, importing: bool = False) -> None:
        """Deploy a template, and roll back if that fails; status and events show the result.

        Args:
            template: The template's text.
            kind: "CREATE" or "UPDATE".
            importing: True if existing resources are imported.
        """
        before = (self.template, self.template_dict, self.parameters)
        self._set_status(f"{kind}_IN_PROGRESS", "User Initiated")
        try:
            self._apply(template, self.parse_template(template), parameters, kind, importing=importing)
        except DeploymentError as error:
            self._set_status("ROLLBACK_IN_PROGRESS" if kind == "CREATE" else "UPDATE_ROLLBACK_IN_PROGRESS", str(error))
            self._roll_back(kind, *before)
            self.stack_status_reason = str(error)
            return
        self._set_status(f"{kind}_COMPLETE", None)

    def remove(self, *, by_force: bool = False) -> None:
        """Delete every resource that is not retained; `by_force` skips resources that cannot be deleted."""
        self._set_status("DELETE_IN_PROGRESS", "User Initiated")
        try:
            self._deployment("DELETE").remove_all(by_force=by_force)
        except DeploymentError as error:
            self._set_status("DELETE_FAILED", str(error))
        else:
            self._set_status("DELETE_COMPLETE", None)

    def _apply(
        self, template: Any, parsed: dict[str, Any], parameters: dict[str, Any], kind: str, *, importing: bool = False
    ) -> None:
        try:
            self.resource_map.take(parsed, parameters)
            self._deployment(kind, importing=importing).run()
            self.template, self.template_dict, self.parameters = template, parsed, parameters
            self.description = parsed.get("Description")
            self.output_map = self._create_output_map()
            list(self.output_map.values())  # reading the values resolves them
        except CloudFormationError as error:
            raise DeploymentError(error.message) from error

    def _roll_back(self, kind: str, template: Any, parsed: dict[str, Any], parameters: dict[str, Any]) -> None:
        if kind == "CREATE":
            try:
                self._deployment("DELETE").remove_all(keeping=("Retain",))
            except DeploymentError as error:
                self._set_status("ROLLBACK_FAILED", str(error))
            else:
                self._set_status("ROLLBACK_COMPLETE", None)
            return
        try:
            self._apply(template, parsed, parameters, "UPDATE")
        except DeploymentError as error:
            self._set_status("UPDATE_ROLLBACK_FAILED", str(error))
        else:
            self._set_status("UPDATE_ROLLBACK_COMPLETE", None)

    def _deployment(self, kind: str, *, importing: bool = False) -> Deployment:
        return Deployment(
            self.resource_map,
            self.clients,
            self.account_id,
            self.region_name,
            self.name,
            kind,
            self._add_event,
            importing,
        )

    def _set_status(self, status: str, reason: str | None) -> None:
        self.status, self.stack_status_reason = status, reason
        self._add_stack_event(status, resource_status_reason=reason)

    def _add_event(self, logical_id: str, physical_id: str, kind: str, status: str, reason: str | None) -> None:
        self.events.append(
            Event(
                stack_id=self.stack_id,
                stack_name=self.name,
                logical_resource_id=logical_id,
                physical_resource_id=physical_id,
                resource_type=kind,
                resource_status=status,
                resource_status_reason=reason,
                resource_properties=None,
            )
        )


class _ParsedChangeSet(ChangeSet):
    """A change set of moto whose template is parsed as a stack's."""

    def _parse_template(self) -> None:
        self.template_dict = parse(self.template)


class StackBackend(CloudFormationBackend):
    """moto's backend, with stacks whose resources are deployed before the stack is complete."""

    clients: ClassVar[Clients]
    _url_module = URLS

    def create_stack(
        self, name: str, template: str, parameters: dict[str, Any], *arguments: Any, **options: Any
    ) -> Stack:
        """CreateStack: returns after the deployment; a failure leads to ROLLBACK_COMPLETE."""
        if any(stack.name == name for stack in self.stacks.values()):
            raise AlreadyExistsException(f"Stack [{name}] already exists")
        stack = self._new_stack(name, parameters, *arguments, **options)
        self._deploy(stack, template, parameters, "CREATE")
        return stack

    def update_stack(
        self,
        name: str,
        template: str,
        role_arn: str | None,
        parameters: list[dict[str, Any]],
        tags: dict[str, str] | None,
    ) -> Stack:
        """UpdateStack: returns after the deployment."""
        stack = self.get_stack(name)
        _refuse_after_failed_creation(stack)
        stack.role_arn = role_arn
        stack.tags = tags if tags is not None else stack.tags
        self._deploy(stack, template, self._resolve_update_parameters(stack, parameters), "UPDATE")
        return stack

    def create_change_set(  # noqa: PLR0913, PLR0917 - moto's signature
        self,
        stack_name: str,
        change_set_name: str,
        template: str,
        parameters: dict[str, str],
        description: str,
        change_set_type: str,
        notification_arns: list[str] | None = None,
        tags: dict[str, str] | None = None,
        role_arn: str | None = None,
    ) -> tuple[str, str]:
        """CreateChangeSet; for a new stack, it also creates the stack in REVIEW_IN_PROGRESS."""
        validate_create_change_set(change_set_name)
        if change_set_type == "UPDATE":
            stack = self.get_stack(stack_name)
            _refuse_after_failed_creation(stack)
        else:
            stack = self._new_stack(stack_name, parameters, notification_arns, tags, role_arn)
            stack._set_status("REVIEW_IN_PROGRESS", "User Initiated")
        identifier = generate_changeset_id(change_set_name, self.region_name, self.account_id)
        change_set = _ParsedChangeSet(
            change_set_type, identifier, change_set_name, stack, template, parameters, description,
            notification_arns, tags, role_arn,
        )  # fmt: skip
        change_set.status, change_set.execution_status = "CREATE_COMPLETE", "AVAILABLE"
        if change_set_type == "UPDATE" and stack.has_template(template) and stack.has_parameters(parameters):
            change_set.status, change_set.execution_status = "FAILED", "UNAVAILABLE"
            change_set.status_reason = _NO_CHANGES
        self.change_sets[identifier] = change_set
        return identifier, stack.stack_id

    def execute_change_set(self, change_set_name: str, stack_name: str | None = None) -> None:
        """ExecuteChangeSet: returns after the deployment."""
        change_set = self.describe_change_set(change_set_name)
        if change_set is None:
            raise ValidationError(stack_name)
        stack = self.stacks[change_set.stack_id]
        importing = getattr(change_set, "importing", False)
        if getattr(change_set, "reverting", False):
            with stack.busy:
                stack._deployment("UPDATE").revert_drift()
        self._deploy(stack, change_set.template, change_set.parameters, change_set.change_set_type, importing=importing)
        failed = stack.status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE")
        change_set.execution_status = "EXECUTE_FAILED" if failed else "EXECUTE_COMPLETE"

    def delete_stack(self, name_or_stack_id: str, *, by_force: bool = False) -> None:
        """DeleteStack: returns after the deletion; a resource that cannot be deleted leads to DELETE_FAILED.

        `by_force` is FORCE_DELETE_STACK, which is valid only for a stack in DELETE_FAILED.
        """
        for stack in list(self.stacks.values()):
            if name_or_stack_id in (stack.name, stack.stack_id):
                with stack.busy:
                    if by_force and stack.status != "DELETE_FAILED":
                        raise ValidationError(message=f"FORCE_DELETE_STACK: {stack.name} is not in DELETE_FAILED")
                    self._delete(stack, by_force=by_force)

    def _delete(self, stack: DeployedStack, *, by_force: bool) -> None:
        if stack.stack_id not in self.stacks:  # a concurrent call has deleted it
            return
        stack.remove(by_force=by_force)
        self._forget_exports(stack)
        if stack.status == "DELETE_COMPLETE":
            self.deleted_stacks[stack.stack_id] = self.stacks.pop(stack.stack_id)
            for identifier, change_set in list(self.change_sets.items()):
                if change_set.stack_id == stack.stack_id:  # otherwise the next stack of this name would have it
                    del self.change_sets[identifier]

    def _new_stack(
        self,
        name: str,
        parameters: dict[str, Any],
        notification_arns: list[str] | None = None,
        tags: dict[str, str] | None = None,
        role_arn: str | None = None,
        **options: Any,
    ) -> DeployedStack:
        DeployedStack.clients = self.clients
        stack = DeployedStack(
            stack_id=generate_stack_id(name, self.region_name, self.account_id),
            name=name,
            template={},
            parameters=parameters,
            account_id=self.account_id,
            region_name=self.region_name,
            notification_arns=notification_arns,
            tags=tags,
            role_arn=role_arn,
            **options,
        )
        # Pass the map itself, not its content: moto treats an empty map as none and then never sees an export.
        stack.cross_stack_resources = stack.resource_map.cross_stack_resources = self.exports
        self.stacks[stack.stack_id] = stack
        return stack

    def _deploy(
        self,
        stack: DeployedStack,
        template: str,
        parameters: dict[str, Any],
        kind: str,
        *,
        importing: bool = False,
    ) -> None:
        with stack.busy:
            stack.deploy(template, parameters, kind, importing=importing)
        self._forget_exports(stack)
        if stack.status.endswith("_COMPLETE") and stack.status != "ROLLBACK_COMPLETE":
            self.exports.update({export.name: export for export in stack.exports})

    def _forget_exports(self, stack: Stack) -> None:
        for name in [name for name, export in self.exports.items() if export.exporting_stack_id == stack.stack_id]:
            del self.exports[name]


def _refuse_after_failed_creation(stack: Stack) -> None:
    """Raise ValidationError if the stack's creation failed, because such a stack can only be deleted.

    https://github.com/aws/aws-cli/issues/6216,
    https://github.com/aws-solutions-library-samples/data-lakes-on-aws/issues/109
    """
    if stack.status in ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED"):
        raise ValidationError(message=f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
