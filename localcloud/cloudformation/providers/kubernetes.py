"""Clusters of EKS, their access entries and their Pod Identity associations."""

from typing import Any

from localcloud.cloudformation.context import Context, Provisioned, tag_map, without
from localcloud.cloudformation.providers.base import Drift, Properties, Provider, changed, provisioned


class ClusterProvider(Provider):
    """AWS::EKS::Cluster."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the cluster; its name is the id."""
        name = properties.get("Name") or context.name(100)
        cluster = {**without(properties, "Tags"), "Name": name}
        request = context.request("eks", "CreateCluster", cluster)
        context.client("eks").create_cluster(**request, **_tags(properties))
        return self._provisioned_cluster(context, kind, name)

    def find(self, context: Context, kind: str, properties: Properties) -> Provisioned | None:
        """Return an existing cluster."""
        eks = context.client("eks")
        try:
            return self._provisioned_cluster(context, kind, str(properties.get("Name", "")))
        except eks.exceptions.ResourceNotFoundException:
            return None

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Change tags in place; localcloud cannot change other properties of a cluster."""
        if {**old.properties, "Tags": None} != {**properties, "Tags": None}:
            return super().update(context, old, properties)
        _tag(context, str(old.attributes["Arn"]), old.properties, properties)
        return self._provisioned_cluster(context, old.cf_resource_type, old.physical_resource_id)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the cluster."""
        eks = context.client("eks")
        try:
            eks.delete_cluster(name=resource.physical_resource_id)
        except eks.exceptions.ResourceNotFoundException:
            return

    def _provisioned_cluster(self, context: Context, kind: str, name: str) -> Provisioned:
        cluster = context.client("eks").describe_cluster(name=name)["cluster"]
        authority = cluster["certificateAuthority"]["data"]
        attributes: dict[str, Any] = {
            "Arn": cluster["arn"],
            "Id": cluster.get("id", ""),
            "Endpoint": cluster["endpoint"],
            "CertificateAuthorityData": authority,
            "CertificateAuthority.Data": authority,
            "ClusterSecurityGroupId": cluster["resourcesVpcConfig"].get("clusterSecurityGroupId", ""),
            "EncryptionConfigKeyArn": "",
            "OpenIdConnectIssuerUrl": cluster["identity"]["oidc"]["issuer"],
        }
        return provisioned(context, kind, name, **attributes)


class AccessEntryProvider(Provider):
    """AWS::EKS::AccessEntry, with its associated access policies."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the entry; principal and cluster are its id."""
        request = context.request("eks", "CreateAccessEntry", without(properties, "Tags", "AccessPolicies"))
        entry = context.client("eks").create_access_entry(**request, **_tags(properties))["accessEntry"]
        _associate(context, {}, properties)
        # The schema's primaryIdentifier; https://docs.aws.amazon.com/cloudcontrolapi/latest/userguide/resource-identifier.html
        identifier = f"{properties['PrincipalArn']}|{properties['ClusterName']}"
        return provisioned(context, kind, identifier, AccessEntryArn=entry["accessEntryArn"])

    def drift(self, context: Context, resource: Provisioned) -> Drift:
        """Return how the entry differs in its existence or its groups."""
        eks = context.client("eks")
        try:
            entry = eks.describe_access_entry(**_entry(resource.properties))["accessEntry"]
        except eks.exceptions.ResourceNotFoundException:
            return "deleted"
        same = sorted(entry["kubernetesGroups"]) == sorted(resource.properties.get("KubernetesGroups") or [])
        return "" if same else "changed"

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Change groups, user name, policies and tags in place."""
        if changed(old, properties, "KubernetesGroups", "Username"):
            entry = {name: properties[name] for name in ("Username",) if name in properties}
            entry |= {**_key_properties(properties), "KubernetesGroups": properties.get("KubernetesGroups") or []}
            context.client("eks").update_access_entry(**context.request("eks", "UpdateAccessEntry", entry))
        _associate(context, old.properties, properties)
        _tag(context, str(old.attributes["AccessEntryArn"]), old.properties, properties)
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the entry, unless it or its cluster no longer exists."""
        eks = context.client("eks")
        try:
            eks.delete_access_entry(**_entry(resource.properties))
        except eks.exceptions.ResourceNotFoundException:
            return


class PodIdentityAssociationProvider(Provider):
    """AWS::EKS::PodIdentityAssociation."""

    def create(self, context: Context, kind: str, properties: Properties) -> Provisioned:
        """Create the association; its ARN is the id."""
        request = context.request("eks", "CreatePodIdentityAssociation", without(properties, "Tags"))
        eks = context.client("eks")
        association = eks.create_pod_identity_association(**request, **_tags(properties))["association"]
        attributes = {"AssociationArn": association["associationArn"], "AssociationId": association["associationId"]}
        return provisioned(context, kind, association["associationArn"], **attributes)

    def update(self, context: Context, old: Provisioned, properties: Properties) -> Provisioned:
        """Change the role, the session tags and the tags in place."""
        association = {
            **without(properties, "Tags", "Namespace", "ServiceAccount"),
            "AssociationId": old.attributes["AssociationId"],
        }
        request = context.request("eks", "UpdatePodIdentityAssociation", association)
        context.client("eks").update_pod_identity_association(**request)
        _tag(context, old.physical_resource_id, old.properties, properties)
        return provisioned(context, old.cf_resource_type, old.physical_resource_id, **old.attributes)

    def delete(self, context: Context, resource: Provisioned) -> None:
        """Delete the association, unless it or its cluster no longer exists."""
        eks = context.client("eks")
        name, identifier = resource.properties["ClusterName"], resource.attributes["AssociationId"]
        try:
            eks.delete_pod_identity_association(clusterName=name, associationId=identifier)
        except eks.exceptions.ResourceNotFoundException:
            return


def _tags(properties: Properties) -> dict[str, Any]:
    """Return the tags of a request, which may not be empty."""
    tags = tag_map(properties)
    return {"tags": tags} if tags else {}


def _key_properties(properties: Properties) -> Properties:
    return {name: properties[name] for name in ("ClusterName", "PrincipalArn")}


def _entry(properties: Properties) -> dict[str, str]:
    return {"clusterName": properties["ClusterName"], "principalArn": properties["PrincipalArn"]}


def _associate(context: Context, old: Properties, new: Properties) -> None:
    """Associate the listed access policies, and disassociate those that are no longer listed."""
    eks = context.client("eks")
    entry = _entry(new)
    for policy in new.get("AccessPolicies") or []:
        request = context.request("eks", "AssociateAccessPolicy", {**_key_properties(new), **policy})
        eks.associate_access_policy(**request)
    policy_arns = {policy["PolicyArn"] for policy in new.get("AccessPolicies") or []}
    for policy in old.get("AccessPolicies") or []:
        if policy["PolicyArn"] not in policy_arns:
            eks.disassociate_access_policy(**entry, policyArn=policy["PolicyArn"])


def _tag(context: Context, arn: str, old: Properties, new: Properties) -> None:
    """Change the tags of a resource."""
    eks = context.client("eks")
    before = tag_map(old)
    after = tag_map(new)
    if removed := sorted(set(before) - set(after)):
        eks.untag_resource(resourceArn=arn, tagKeys=removed)
    if after != before and after:
        eks.tag_resource(resourceArn=arn, tags=after)


PROVIDERS: dict[str, Provider] = {
    "AWS::EKS::Cluster": ClusterProvider(),
    "AWS::EKS::AccessEntry": AccessEntryProvider(),
    "AWS::EKS::PodIdentityAssociation": PodIdentityAssociationProvider(),
}
