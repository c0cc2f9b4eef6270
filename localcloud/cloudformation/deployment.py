"""Deployment of one stack: creates and updates resources in order, then deletes the obsolete ones."""

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError
from moto.cloudformation.exceptions import ValidationError
from moto.core.exceptions import ServiceException
from werkzeug.exceptions import HTTPException

from localcloud.cloudformation.context import Clients, Context, Provisioned, ProvisioningError
from localcloud.cloudformation.providers import Provider, is_custom, provider_for
from localcloud.cloudformation.resource_schemas import resource_schema
from localcloud.cloudformation.templates import Resources, references

_log = logging.getLogger(__name__)
_EXPECTED = (ClientError, BotoCoreError, ProvisioningError, ValidationError, ServiceException, HTTPException)
_RETAINED = ("Retain", "RetainExceptOnCreate")

_DRIFTED = "localcloud:drifted"
"""A property that no template has. It makes a drifted resource differ from its template."""

Note = Callable[[str, str, str, str, str | None], None]


class DeploymentError(Exception):
    """A resource failed; the message is the stack's status reason."""


@dataclass(frozen=True)
class Deployment:
    """Provisions the resources of a stack's template.

    Attributes:
        resources: The stack's resources and its template.
        clients: Clients of the server's own APIs.
        kind: "CREATE", "UPDATE" or "DELETE", for the event texts.
        note: Receives the events: logical id, physical id, type, status, reason.
        importing: True if existing resources are imported, as ImportExistingResources requests
            (https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html).
    """

    resources: Resources
    clients: Clients
    account: str
    region: str
    stack_name: str
    kind: str
    note: Note
    importing: bool = False
    _deleted_first: list[Provisioned] = field(default_factory=list)

    def run(self) -> None:
        """Create and update resources in order, then delete the replaced ones and those no longer in the template.

        Raises:
            DeploymentError: If a resource could not be created or updated; nothing was deleted.
        """
        undone = self.resources.take_back_replacements()
        names = self.resources.wanted()
        self._bring_all_up(names)
        replaced = list(self.resources.replaced.values())
        removed = [self.resources[name] for name in self._provisioned_names() if name not in names]
        for resource in reversed([*removed, *replaced, *undone]):
            policy = "UpdateReplacePolicy" if resource in replaced else "DeletionPolicy"
            self._remove(resource, keep=resource not in undone and resource.definition.get(policy) in _RETAINED)
            if self.resources[resource.logical_resource_id] is resource:
                self.resources.forget(resource.logical_resource_id)
        self.resources.replaced.clear()

    def remove_all(self, keeping: tuple[str, ...] = _RETAINED, *, by_force: bool = False) -> None:
        """Delete every resource that is not retained, newest first, and continue after a failed deletion.

        Args:
            keeping: Deletion policies that retain a resource. A stack whose creation failed retains only `Retain`, and
                resources that it had imported.
            by_force: Forget resources that cannot be deleted.

        Raises:
            DeploymentError: If some resources could not be deleted.
        """
        failed = []
        for name in reversed(self._provisioned_names()):
            resource = self.resources[name]
            policy = resource.definition.get("DeletionPolicy")
            keep = policy in keeping or (resource.imported and policy in _RETAINED)
            if self._remove(resource, keep=keep) or by_force:
                self.resources.forget(name)
            else:
                failed.append(name)
        if failed:
            message = f"The following resource(s) failed to delete: [{', '.join(failed)}]."
            raise DeploymentError(message)

    def drifted(self) -> list[str]:
        """Return the names of resources that were deleted or changed outside the stack."""
        return [name for name in self._provisioned_names() if self._drift(name)]

    def revert_drift(self) -> None:
        """Make the next run create and update drifted resources, as a change set in REVERT_DRIFT mode does.

        https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/drift-aware-change-sets.html
        """
        for name in self.drifted():
            if self._drift(name) == "deleted":
                self.resources.forget(name)
            else:
                self.resources[name].properties = {**self.resources[name].properties, _DRIFTED: True}

    def _drift(self, name: str) -> str:
        resource = self.resources[name]
        return provider_for(resource.cf_resource_type).drift(self._context(name), resource)

    def _provisioned_names(self) -> list[str]:
        """Return the names of the provisioned resources, in the order of provisioning."""
        return [name for name, value in self.resources._parsed_resources.items() if isinstance(value, Provisioned)]

    def _bring_all_up(self, names: list[str]) -> None:
        """Create and update resources in order; independent custom resources run in parallel.

        CloudFormation processes all independent resources in parallel
        (https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-attribute-dependson.html). Here
        only custom resources run in parallel, because they spend their time waiting for a function.
        """
        futures: dict[str, Future[None]] = {}
        with ThreadPoolExecutor(max(1, len(names)), thread_name_prefix="custom-resource") as pool:
            for name in names:
                definition = self.resources.definition(name)
                for needed in futures.keys() & set(references(definition)):
                    futures[needed].result()
                if is_custom(definition["Type"]):
                    futures[name] = pool.submit(self._bring_up, name)
                else:
                    self._bring_up(name)
        for future in futures.values():
            future.result()

    def _bring_up(self, name: str) -> None:
        """Create, update or replace one resource. A replaced resource is deleted after the update."""
        definition = self.resources.definition(name)
        old = self.resources[name]
        kind = definition["Type"]
        physical_id = old.physical_resource_id if old else ""
        verb = "UPDATE" if old else "CREATE"
        try:
            properties = self.resources.properties(name)
            if old and old.properties == properties and old.cf_resource_type == kind:
                old.definition = definition
                return
            self.note(name, physical_id, kind, f"{verb}_IN_PROGRESS", None)
            _check_properties(name, kind, properties)
            new = None
            if old is None:
                new = self._resource_to_import(name, properties)
            if new is None:
                new = self._provision(name, kind, old, properties)
        except _EXPECTED as error:
            reason = _reason(error)
            self.note(name, physical_id, kind, f"{verb}_FAILED", reason)
            message = f"The following resource(s) failed to {verb.lower()}: [{name}]. {reason}"
            raise DeploymentError(message) from error
        except Exception as error:
            # A defect of moto or localcloud inside one resource must fail that resource. Otherwise the stack would
            # stay in progress, and the CLI would wait forever.
            _log.exception("provisioning %s (%s) raised", name, kind)
            self.note(name, physical_id, kind, f"{verb}_FAILED", f"Internal error in localcloud: {error!r}")
            message = f"The following resource(s) failed to {verb.lower()}: [{name}]. Internal error: {error!r}"
            raise DeploymentError(message) from error
        new.definition, new.properties = definition, properties
        self.resources.keep(name, new)
        self.note(name, new.physical_resource_id, kind, f"{verb}_COMPLETE", None)
        if old and new.physical_resource_id != old.physical_resource_id and old not in self._deleted_first:
            self.resources.replaced[name] = old

    def _provision(self, name: str, kind: str, old: Provisioned | None, properties: dict[str, object]) -> Provisioned:
        """Create a resource, update it in place, or create its replacement.

        CloudFormation creates a replacement before it deletes the old resource, and therefore refuses to replace a
        resource with the same custom name (https://github.com/convox/rack/issues/2941,
        https://github.com/aws-samples/aws-genomics-workflows/issues/105).
        """
        provider = provider_for(kind)
        context = self._context(name)
        if old is None or old.cf_resource_type != kind:
            return provider.create(context, kind, properties)
        schema = resource_schema(kind)
        if not schema.replaces(old.properties, properties):
            return provider.update(context, old, properties)
        if schema.delete_first:
            self._deleted_first.append(old)
            self._remove(old, keep=False)
            self.resources.forget(name)
        elif (fixed := schema.name(properties)) and fixed == schema.name(old.properties):
            message = (
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {fixed} and update the stack again."
            )
            raise ProvisioningError(message)
        return provider.create(context, kind, properties)

    def _resource_to_import(self, name: str, properties: dict[str, object]) -> Provisioned | None:
        """Return the existing resource to import; its name must be static in the template."""
        definition = self.resources.definition(name)
        if not self.importing or definition.get("DeletionPolicy") not in _RETAINED:
            return None
        literal = definition.get("Properties", {})
        static = {key: value for key, value in properties.items() if literal.get(key) == value}
        existing = provider_for(definition["Type"]).find(self._context(name), definition["Type"], static)
        if existing:
            existing.imported = True
            self.note(name, existing.physical_resource_id, definition["Type"], "IMPORT_COMPLETE", None)
        return existing

    def _remove(self, resource: Provisioned, *, keep: bool) -> bool:
        name, kind, physical_id = (
            resource.logical_resource_id, resource.cf_resource_type, resource.physical_resource_id,
        )  # fmt: skip
        if keep:
            self.note(name, physical_id, kind, "DELETE_SKIPPED", None)
            return True
        provider: Provider = provider_for(kind)
        try:
            provider.delete(self._context(name), resource)
        except _EXPECTED as error:
            if not _is_gone(error):
                self.note(name, physical_id, kind, "DELETE_FAILED", _reason(error))
                return False
        self.note(name, physical_id, kind, "DELETE_COMPLETE", None)
        return True

    def _context(self, name: str) -> Context:
        return Context(self.clients, self.account, self.region, self.stack_name, self.resources.stack_id, name)


def _check_properties(name: str, kind: str, properties: dict[str, object]) -> None:
    if problems := resource_schema(kind).violations(properties):
        message = f"Properties validation failed for resource {name} with message:"
        raise ProvisioningError("\n".join([message, *problems]))


def _is_gone(error: Exception) -> bool:
    """Return True if a deletion failed because the resource no longer exists; CloudFormation treats it as success."""
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else ""
    return any(word in code for word in ("NotFound", "NoSuch", "NonExistent", "DoesNotExist"))


def _reason(error: Exception) -> str:
    return str(getattr(error, "message", "") or getattr(error, "description", "") or error)
