"""SimulatePrincipalPolicy, which moto lacks: evaluates a role's or user's policies for actions and resources.

The SageMaker Python SDK v3 calls it for the role of every training job before it creates the job
(sagemaker.core.helper.iam_role_resolver).
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from moto.core.responses import ActionResult
from moto.iam import urls
from moto.iam.exceptions import NotFoundException
from moto.iam.models import IAMBackend
from moto.iam.responses import IamResponse

from localcloud.iam.evaluation import Verdict, verdict
from localcloud.iam.roles import managed_documents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localcloud.iam.request_keys import Context
    from localcloud.server.local_cloud import LocalCloud

_DECISIONS: Mapping[Verdict, str] = {
    "Allowed": "allowed",
    "ImplicitlyDenied": "implicitDeny",
    "ExplicitlyDenied": "explicitDeny",
}
"""PolicyEvaluationDecisionType in IAM's service model."""


_ONE_AT_A_TIME = threading.RLock()


class SimulatingResponse(IamResponse):
    """moto's IAM, extended by SimulatePrincipalPolicy; it answers one request at a time.

    moto iterates over dictionaries that requests in other threads change, and fails with a RuntimeError.
    """

    def call_action(self) -> Any:
        """Answer a request after all earlier ones."""
        with _ONE_AT_A_TIME:
            return super().call_action()

    def simulate_principal_policy(self) -> ActionResult:
        """Evaluate the policies of PolicySourceArn and of the request.

        Without ResourceArns, the resource is "*", which only a policy for all resources allows
        (https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html).
        """
        documents = [*self._documents(str(self._get_param("PolicySourceArn"))), *self._given_documents()]
        context: Context = {
            entry["ContextKeyName"]: _value(entry["ContextKeyType"], entry["ContextKeyValues"])
            for entry in self._get_param("ContextEntries", [])
        }
        results = [
            {
                "EvalActionName": action,
                "EvalResourceName": resource,
                "EvalDecision": _DECISIONS[verdict(documents, action, resource, context)],
                "MatchedStatements": [],
                "MissingContextValues": [],
            }
            for action in self._get_param("ActionNames", [])
            for resource in self._get_param("ResourceArns", []) or ["*"]
        ]
        return ActionResult({"EvaluationResults": results, "IsTruncated": False})

    def _given_documents(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self._get_param("PolicyInputList", [])]

    def _documents(self, source: str) -> list[dict[str, Any]]:
        """Return the policies of a role or user.

        Raises:
            NotFoundException: If it does not exist.
        """
        kind, _, name = source.partition(":iam::")[2].partition(":")[2].partition("/")
        name = name.rpartition("/")[2]
        if kind == "role":
            entity = self.backend.get_role(name)
        elif kind == "user":
            entity = self.backend.get_user(name)
        else:
            raise NotFoundException(f"The principal {source} cannot be found.")
        texts = [*entity.policies.values(), *managed_documents(entity)]
        return [json.loads(text) if isinstance(text, str) else text for text in texts]


def _value(kind: str, values: list[str]) -> str | list[str]:
    """Return the value of a key: a list if its ContextKeyType, for example "stringList", is multivalued."""
    return values if kind.endswith("List") else values[0]


def install(cloud: LocalCloud) -> None:
    """Replace moto's IAM with ours, and let other services search a copy of the roles."""
    cloud.extend(urls.url_paths, dict.fromkeys(urls.url_paths, SimulatingResponse.dispatch))
    cloud.replace(IAMBackend, get_roles=lambda backend: list(backend.roles.values()))
