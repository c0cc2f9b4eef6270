"""Access to a cluster: the objects that a person applies grant each group its permissions in one namespace."""

import pytest

from traingrid.deploy.cluster_access import RULES, Object, access_objects
from traingrid.grid.eks import EksCluster

SETTINGS = EksCluster(cluster="research", namespace="training", service_account="jobs")


@pytest.fixture
def made() -> list[Object]:
    return list(access_objects("grid", SETTINGS))


def test_the_objects_are_in_an_order_in_which_they_can_be_applied(made: list[Object]) -> None:
    kinds = [one["kind"] for one in made]
    assert kinds == ["Namespace", "ServiceAccount", *["Role", "RoleBinding"] * 3]
    assert {one["metadata"].get("namespace") for one in made[1:]} == {"training"}
    assert [one["metadata"]["name"] for one in made[:2]] == ["training", "jobs"]


def test_a_binding_gives_a_group_the_role_with_its_name(made: list[Object]) -> None:
    for part in RULES:
        (role, binding) = [one for one in made if one["metadata"]["name"] == f"traingrid-grid-{part}"]
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": role["metadata"]["name"],
        }
        (subject,) = binding["subjects"]
        assert (subject["kind"], subject["name"]) == ("Group", f"traingrid:grid:{part}")
        assert role["metadata"]["labels"] == {"traingrid/grid": "grid"}


def test_no_rule_has_wildcards_or_reaches_secrets_and_shells() -> None:
    for rules in RULES.values():
        for rule in rules:
            assert "*" not in {rule.group, *rule.resources, *rule.verbs}
            assert not {"secrets", "pods/exec", "pods/attach", "pods/portforward"} & set(rule.resources)


@pytest.mark.parametrize("part", ["sweep", "use"])
def test_only_children_create_anything(part: str) -> None:
    verbs = {verb for name, rules in RULES.items() if name == part for rule in rules for verb in rule.verbs}
    assert not verbs & {"create", "update", "deletecollection", "impersonate", "bind", "escalate"}


def test_only_jobs_and_services_are_created() -> None:
    created = {resource for rule in RULES["launch"] if "create" in rule.verbs for resource in rule.resources}
    assert created == {"jobs", "mpijobs", "services"}
