"""Service: answers the calls of EKS's API, whose requests it checks against the service model."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import TYPE_CHECKING, Any

import botocore.session
from werkzeug.wrappers import Response

from localcloud.credentials import access_keys
from localcloud.eks import access_entries, errors, pod_identity
from localcloud.eks.access_policies import POLICIES, policy_arn
from localcloud.eks.clusters import MODES, Cluster, Clusters
from localcloud.eks.principals import caller
from localcloud.wire.protocols import read_call
from localcloud.wire.record import buffered
from localcloud.wire.refusals import refusal
from localcloud.wire.service_model import sentence, violations
from localcloud.wire.signature import signature_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from botocore.model import Shape

    from localcloud.eks.access_entries import AccessEntry
    from localcloud.eks.pod_identity import Association
    from localcloud.server.local_cloud import LocalCloud
    from localcloud.wire.record import StartResponse, WsgiApp
    from localcloud.wire.signature import Signature

Request = dict[str, Any]
_PAGE = 100
_CREATED = "Association already exists: {}"


class Eks:
    """WSGI middleware that answers the calls of EKS, and forwards all others."""

    def __init__(self, application: WsgiApp, cloud: LocalCloud) -> None:
        self._application = application
        self.clusters = Clusters(cloud)
        cloud.on_stop(self.clusters.stop_all)

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer or forward a request.

        Raises:
            NotImplementedError: localcloud lacks the operation.
        """
        signature = signature_of(environ)
        if signature is None or signature.service != "eks":
            return self._application(environ, start_response)
        call = read_call("eks", buffered(environ), whole_texts=True)
        if call is None or call.action not in _OPERATIONS:
            message = f"The operation {call.action if call else environ['PATH_INFO']} has not been implemented"
            raise NotImplementedError(message)
        try:
            request = _members(call.action, call.parameters)
            if problems := violations("eks", call.action, request):
                raise errors.invalid_parameter(sentence(problems))
            reply = _OPERATIONS[call.action](_Service(self.clusters, signature), request)
        except errors.RefusedError as error:
            return refusal(environ, error.status, error.code, str(error), "eks")(environ, start_response)
        return Response(json.dumps(reply), mimetype="application/json")(environ, start_response)


class _Service:
    """The operations for one caller."""

    def __init__(self, clusters: Clusters, signature: Signature) -> None:
        self._clusters, self._key = clusters, signature.access_key
        self.account = access_keys.account_of(signature.access_key)
        self.region = signature.region
        self._own_clusters = clusters.of(self.account, self.region)

    def create_cluster(self, request: Request) -> Request:
        access = request.get("accessConfig") or {}
        is_creator_admin = access.get("bootstrapClusterCreatorAdminPermissions") is not False
        creator = self._creator() if is_creator_admin else ""
        cluster = self._clusters.create(request, self.account, self.region, creator)
        return {"cluster": cluster.described("CREATING")}

    def describe_cluster(self, request: Request) -> Request:
        return {"cluster": self._cluster(request["name"]).described()}

    def list_clusters(self, request: Request) -> Request:
        return _page("clusters", sorted(self._own_clusters), request)

    def delete_cluster(self, request: Request) -> Request:
        cluster = self._cluster(request["name"])
        self._clusters.delete(cluster)
        return {"cluster": cluster.described("DELETING")}

    def create_access_entry(self, request: Request) -> Request:
        cluster = self._with_entries(request)
        if request["principalArn"] in cluster.entries:  # the text: https://github.com/aws/eks-distro/issues/2805
            raise errors.in_use("The specified access entry resource is already in use on this cluster.")
        entry = access_entries.made(cluster.arn, request)
        cluster.entries[entry.principal_arn] = entry
        return {"accessEntry": entry.described(cluster.name)}

    def describe_access_entry(self, request: Request) -> Request:
        return {"accessEntry": self._entry(request).described(request["clusterName"])}

    def list_access_entries(self, request: Request) -> Request:
        policy = request.get("associatedPolicyArn")
        entries = self._with_entries(request).entries
        arns = [arn for arn, entry in entries.items() if policy is None or policy in entry.policies]
        return _page("accessEntries", sorted(arns), request)

    def update_access_entry(self, request: Request) -> Request:
        entry = self._entry(request)
        access_entries.update(entry, request)
        return {"accessEntry": entry.described(request["clusterName"])}

    def delete_access_entry(self, request: Request) -> Request:
        del self._with_entries(request).entries[self._entry(request).principal_arn]
        return {}

    def associate_access_policy(self, request: Request) -> Request:
        associated = access_entries.associate(self._entry(request), request)
        return {**_entry_key(request), "associatedAccessPolicy": associated}

    def disassociate_access_policy(self, request: Request) -> Request:
        if self._entry(request).policies.pop(str(request["policyArn"]), None) is None:
            raise errors.not_found(f"The policy {request['policyArn']} is not associated with the access entry.")
        return {}

    def list_associated_access_policies(self, request: Request) -> Request:
        policies = self._entry(request).policies
        associated = [access_entries.association(arn, scope) for arn, scope in sorted(policies.items())]
        return _entry_key(request) | _page("associatedAccessPolicies", associated, request)

    def list_access_policies(self, request: Request) -> Request:
        policies = [{"name": name, "arn": policy_arn(name)} for name in sorted(POLICIES)]
        return _page("accessPolicies", policies, request)

    def create_pod_identity_association(self, request: Request) -> Request:
        cluster = self._cluster(request["clusterName"])
        if existing := cluster.association_of(request["namespace"], request["serviceAccount"]):
            raise errors.in_use(_CREATED.format(existing.identifier))
        association = pod_identity.made(cluster.arn, request)
        cluster.associations[association.identifier] = association
        return {"association": association.described(cluster.name)}

    def describe_pod_identity_association(self, request: Request) -> Request:
        return {"association": self._association(request).described(request["clusterName"])}

    def list_pod_identity_associations(self, request: Request) -> Request:
        cluster = self._cluster(request["clusterName"])
        summaries = [association.summary(cluster.name) for association in cluster.associations.values()]
        for name in ("namespace", "serviceAccount"):
            summaries = [summary for summary in summaries if request.get(name) in (None, summary[name])]
        return _page("associations", summaries, request)

    def update_pod_identity_association(self, request: Request) -> Request:
        association = self._association(request)
        pod_identity.update(association, request)
        return {"association": association.described(request["clusterName"])}

    def delete_pod_identity_association(self, request: Request) -> Request:
        association = self._association(request)
        del self._cluster(request["clusterName"]).associations[association.identifier]
        return {"association": association.described(request["clusterName"])}

    def tag_resource(self, request: Request) -> Request:
        self._tags(request["resourceArn"]).update(request["tags"])
        return {}

    def untag_resource(self, request: Request) -> Request:
        tags = self._tags(request["resourceArn"])
        for name in request["tagKeys"]:
            tags.pop(name, None)
        return {}

    def list_tags_for_resource(self, request: Request) -> Request:
        return {"tags": self._tags(request["resourceArn"])}

    def _creator(self) -> str:
        """Return the ARN of the caller's role or user; CloudFormation here calls for the account's user."""
        arn = str(access_keys.principal_of(self._key))
        if arn.endswith(".amazonaws.com"):
            return f"arn:aws:iam::{self.account}:root"
        identity = caller(arn)
        return identity.principal.arn if identity else ""

    def _cluster(self, name: str) -> Cluster:
        if (cluster := self._own_clusters.get(name)) is None:
            raise errors.not_found(f"No cluster found for name: {name}.")
        return cluster

    def _with_entries(self, request: Request) -> Cluster:
        """Return a cluster whose authentication mode has access entries."""
        cluster = self._cluster(request["clusterName"])
        if (
            cluster.mode not in MODES
        ):  # the text: https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3048
            text = "The cluster's authentication mode must be set to one of [API, API_AND_CONFIG_MAP] to perform this "
            raise errors.invalid_request(f"{text}operation.")
        return cluster

    def _entry(self, request: Request) -> AccessEntry:
        if (entry := self._with_entries(request).entries.get(request["principalArn"])) is None:
            # the text: https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3024
            text = "The specified principalArn could not be found. You can view your available access entries with "
            raise errors.not_found(f"{text}'list-access-entries'.")
        return entry

    def _association(self, request: Request) -> Association:
        identifier = request["associationId"]
        if (association := self._cluster(request["clusterName"]).associations.get(identifier)) is None:
            raise errors.not_found(f"The association {identifier} does not exist.")
        return association

    def _tags(self, arn: str) -> dict[str, str]:
        for cluster in self._own_clusters.values():
            tagged: list[Cluster | AccessEntry | Association] = [cluster]
            tagged += [*cluster.entries.values(), *cluster.associations.values()]
            for resource in tagged:
                if resource.arn == arn:
                    return resource.tags
        raise errors.not_found(f"The resource {arn} does not exist.")


def _entry_key(request: Request) -> Request:
    return {"clusterName": request["clusterName"], "principalArn": request["principalArn"]}


def _page(name: str, items: list[Any], request: Request) -> Request:
    """Return a page of a list; a token is the number of the next item."""
    size = request.get("maxResults") or _PAGE
    try:
        start = int(base64.b64decode(request.get("nextToken") or "MA=="))
    except ValueError as error:
        raise errors.invalid_parameter("Invalid pagination token") from error
    page: Request = {name: items[start : start + size]}
    if start + size < len(items):
        page["nextToken"] = base64.b64encode(str(start + size).encode()).decode()
    return page


def _members(operation: str, parameters: Mapping[str, Any]) -> Request:
    """Return the members of a request by their names in the service model; a path names a cluster "name"."""
    members = {}
    for member, shape in _shapes(operation).items():
        place = str(shape.serialization.get("name", member))
        if place in parameters:
            members[member] = _typed_value(shape, parameters[place])
    return members


def _typed_value(shape: Shape, value: Any) -> Any:
    """Return a value of the URL in the type of its member."""
    if shape.type_name == "integer" and isinstance(value, str) and value.isdecimal():
        return int(value)
    return [value] if shape.type_name == "list" and isinstance(value, str) else value


@cache
def _shapes(operation: str) -> Mapping[str, Shape]:
    model = botocore.session.get_session().get_service_model("eks")
    shape = model.operation_model(operation).input_shape
    return dict(shape.members) if shape else {}


_OPERATIONS: Mapping[str, Callable[[_Service, Request], Request]] = {
    "AssociateAccessPolicy": _Service.associate_access_policy,
    "CreateAccessEntry": _Service.create_access_entry,
    "CreateCluster": _Service.create_cluster,
    "CreatePodIdentityAssociation": _Service.create_pod_identity_association,
    "DeleteAccessEntry": _Service.delete_access_entry,
    "DeleteCluster": _Service.delete_cluster,
    "DeletePodIdentityAssociation": _Service.delete_pod_identity_association,
    "DescribeAccessEntry": _Service.describe_access_entry,
    "DescribeCluster": _Service.describe_cluster,
    "DescribePodIdentityAssociation": _Service.describe_pod_identity_association,
    "DisassociateAccessPolicy": _Service.disassociate_access_policy,
    "ListAccessEntries": _Service.list_access_entries,
    "ListAccessPolicies": _Service.list_access_policies,
    "ListAssociatedAccessPolicies": _Service.list_associated_access_policies,
    "ListClusters": _Service.list_clusters,
    "ListPodIdentityAssociations": _Service.list_pod_identity_associations,
    "ListTagsForResource": _Service.list_tags_for_resource,
    "TagResource": _Service.tag_resource,
    "UntagResource": _Service.untag_resource,
    "UpdateAccessEntry": _Service.update_access_entry,
    "UpdatePodIdentityAssociation": _Service.update_pod_identity_association,
}
