"""A Region in another account: who of the home Region's account may become whom there, and what each may then do.

Here the grid's one account is the Region's, and the home Region is in another: so the cases of a child can be asked of
the role that a child takes on, as they are.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from localcloud.iam.evaluation import verdict as localcloud_verdict
from localcloud.iam.trust import lets
from tests.policies import child_cases
from tests.policies.case import ACTION, ALLOWED, IMPLICITLY, RESOURCE, Caller, Case
from tests.policies.child_cases import CREATE, LEDGER, MANIFESTS, asked, execution_role, output, training_job
from tests.policies.function_cases import QUEUE, TO_SAGEMAKER
from tests.policies.grid import ACCOUNT, FREE, INSIDE, Document, roles, the_grid, the_templates
from tests.policies.key_cases import USES, VIA, data_key, through
from tests.policies.matrix import of_pairs
from tests.policies.mending import EVERYTHING, without
from tests.policies.simulator import verdicts
from tests.policies.test_security_page import quoted, rows
from tests.stacks.templates import Template, as_list
from tests.stacks.templates import policies as all_policies
from traingrid.grid import Grid

HOMES = "210987654321"
HOME_ROLES = {"launch": "child", "record": "recorder", "sweep": "reconciler"}
AT_HOME = {"launch": "OrchestratorRole", "record": "JobEventsRecordRole", "sweep": "ReconcilerSweepRole"}
PARTS = ("launch", "record", "sweep", "use")
launch, record, sweep, use = map(Caller, PARTS)

DATA = f"arn:aws:s3:::traingrid-data-{ACCOUNT}-{INSIDE}"
GROUP = f"arn:aws:logs:{INSIDE}:{ACCOUNT}:log-group:/aws/sagemaker/TrainingJobs"
STACK = f"arn:aws:cloudformation:{INSIDE}:{ACCOUNT}:stack/traingrid-{INSIDE}/0a1b"
REPOSITORY = f"arn:aws:ecr:{INSIDE}:{ACCOUNT}:repository/traingrid/training"
BOOTSTRAP = f"arn:aws:ssm:{INSIDE}:{ACCOUNT}:parameter/cdk-bootstrap/hnb659fds/version"


def two_accounts() -> Grid:
    described = the_grid().model_dump(exclude_defaults=True)
    described["account"] = HOMES
    described["regions"][INSIDE]["account"] = ACCOUNT
    del described["regions"][INSIDE]["service_queue"]  # which a Region in another account cannot have
    return Grid.model_validate(described)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Template]:
    folder = tmp_path_factory.mktemp("accounts")
    (folder / "layer" / "python").mkdir(parents=True)
    return the_templates(folder / "layer", folder / "assembly", two_accounts())


def of_role(template: Template, role: str) -> list[Document]:
    found = (policy["Properties"] for policy in all_policies(template))
    return [policy["PolicyDocument"] for policy in found if role in policy["Roles"]]


@pytest.fixture(scope="module")
def granted(templates: Mapping[str, Template]) -> dict[str, list[Document]]:
    """What each role in the Region's account may do."""
    return {part: of_role(templates[f"traingrid-{INSIDE}"], f"Acting{part.capitalize()}") for part in PARTS}


@pytest.fixture(scope="module")
def trusts(templates: Mapping[str, Template]) -> dict[str, Document]:
    made = roles(templates[f"traingrid-{INSIDE}"])
    return {part: made[f"Acting{part.capitalize()}"]["AssumeRolePolicyDocument"] for part in PARTS}


def _of_a_child() -> Iterator[Case]:
    """Yield what a child is asked of training at home, of the role that it takes on: the other Region is not its."""
    for case in child_cases.cases():
        there = INSIDE in case.resource or case.resource == "*"
        if MANIFESTS in case.resource or case.action.startswith(("batch:", "dynamodb:")) or not there:
            continue
        yield replace(case, role="launch")
    yield launch.may_not(
        "start one in a Region of home's account", CREATE, training_job(FREE), asked(INSIDE), breaks=RESOURCE
    )
    yield launch.may_not("write into the ledger", "dynamodb:UpdateItem", LEDGER)
    yield launch.may_not("become the next", "sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/traingrid-use-{INSIDE}")
    yield launch.may("see which data there is in a bucket of grid.yaml", "s3:ListBucket", "arn:aws:s3:::mine-east")


def _watching() -> Iterator[Case]:
    theirs = training_job(INSIDE, "my-own-job")
    for caller in (record, sweep, use):
        for action in ("DescribeTrainingJob", "ListTags"):
            yield caller.may("see how a job ended", f"sagemaker:{action}", training_job(INSIDE))
        yield caller.may_not("see another's", "sagemaker:DescribeTrainingJob", theirs, breaks=RESOURCE)
        yield caller.may_not("start one", CREATE, training_job(INSIDE), asked(INSIDE))
        yield caller.may_not("pass a role", "iam:PassRole", execution_role(INSIDE), {**TO_SAGEMAKER})
        yield caller.may_not("submit an array", "batch:SubmitJob", QUEUE)
        yield caller.may_not("delete one", "sagemaker:DeleteTrainingJob", training_job(INSIDE))
    for caller in (sweep, use):
        yield caller.may("find what runs", "sagemaker:ListTrainingJobs", "*")
        yield caller.may("stop what nobody wants", "sagemaker:StopTrainingJob", training_job(INSIDE))
        yield caller.may_not("stop another's", "sagemaker:StopTrainingJob", theirs, breaks=RESOURCE)
    yield record.may_not("stop one", "sagemaker:StopTrainingJob", training_job(INSIDE))
    for caller in (record, sweep):
        yield caller.may_not("read a model", "s3:GetObject", f"{output(INSIDE)}/0123abcd/0/output/model.tar.gz")


def _using() -> Iterator[Case]:
    for bucket in (DATA, output(INSIDE), "arn:aws:s3:::mine-east"):
        yield use.may("see what lies there", "s3:ListBucket", bucket)
    yield use.may("take a model", "s3:GetObject", f"{output(INSIDE)}/0123abcd/0/output/model.tar.gz")
    yield use.may_not("take data away", "s3:GetObject", f"{DATA}/campaign/x", breaks=RESOURCE)
    for action in ("s3:PutObject", "s3:AbortMultipartUpload"):
        yield use.may("bring data", action, f"{DATA}/campaign/x")
    for place in (f"{output(INSIDE)}/0123abcd/0/output/model.tar.gz", "arn:aws:s3:::mine-east/x"):
        yield use.may_not(f"write {place[13:]}", "s3:PutObject", place, breaks=RESOURCE)
    yield use.may_not("delete data", "s3:DeleteObject", f"{DATA}/campaign/x")
    yield use.may("read a log", "logs:GetLogEvents", f"{GROUP}:log-stream:traingrid-0123abcd-0-1/algo-1-1700000000")
    yield use.may("see which streams there are", "logs:DescribeLogStreams", f"{GROUP}:log-stream:")
    others = f"{GROUP}:log-stream:somebody-1/algo-1-1700000000"
    yield use.may_not("read another's log", "logs:GetLogEvents", others, breaks=RESOURCE)
    yield use.may("see whether an image is there", "ecr:DescribeImages", REPOSITORY)
    yield use.may_not("push one", "ecr:PutImage", REPOSITORY)
    yield use.may("see the stack", "cloudformation:DescribeStacks", STACK)
    yield use.may_not("see others", "cloudformation:DescribeStacks", STACK.replace("traingrid-", "x-"), breaks=RESOURCE)
    yield use.may("see whether the account is bootstrapped", "ssm:GetParameter", BOOTSTRAP)
    yield use.may_not("read a secret", "ssm:GetParameter", BOOTSTRAP.replace("version", "secret"), breaks=RESOURCE)
    yield use.may("see that the execution role is there", "iam:GetRole", execution_role(INSIDE))
    for action in ("ec2:DescribeRegions", "servicequotas:ListServiceQuotas"):
        yield use.may("check the account", action, "*")


def _keys() -> Iterator[Case]:
    key, elsewhere = data_key(INSIDE), data_key(INSIDE).replace("DataKey", "Other")
    for caller in (launch, use):
        for action in USES:
            yield caller.may("read and write what is encrypted", action, key, through("s3", INSIDE))
            yield caller.may_not("use the key by itself", action, key, breaks=VIA)
            yield caller.may_not("use another", action, elsewhere, through("s3", INSIDE), breaks=RESOURCE)


CASES = (*_of_a_child(), *_watching(), *_using(), *_keys())
DENIED = [case for case in CASES if case.expected != ALLOWED]


@pytest.fixture(scope="module")
def said(granted: Mapping[str, list[Document]]) -> dict[Case, str]:
    return dict(zip(CASES, of_pairs([(case, granted[case.role]) for case in CASES]), strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_iam_says(case: Case, said: Mapping[Case, str]) -> None:
    assert said[case] == case.expected


@pytest.fixture(scope="module")
def mended(granted: Mapping[str, list[Document]]) -> dict[Case, str]:
    pairs = [(case, without(granted[case.role], case)) for case in DENIED]
    return dict(zip(DENIED, of_pairs(pairs), strict=True))


@pytest.mark.parametrize("case", DENIED, ids=str)
def test_it_hangs_on_the_one_thing_that_it_breaks(case: Case, mended: Mapping[Case, str]) -> None:
    assert mended[case] == ALLOWED


def test_iam_in_localcloud_says_the_same(granted: Mapping[str, list[Document]], said: Mapping[Case, str]) -> None:
    found = {
        case: localcloud_verdict(granted[case.role], case.action, case.resource, dict(case.context)) for case in CASES
    }
    assert {str(case): one for case, one in found.items() if one != said[case]} == {}


def test_every_action_that_a_role_is_granted_is_one_that_it_takes(granted: Mapping[str, list[Document]]) -> None:
    taken = {(case.role, case.action) for case in CASES if case.expected == ALLOWED}
    assert _granted(granted) == taken


def _granted(granted: Mapping[str, list[Document]]) -> set[tuple[str, str]]:
    return {
        (role, action)
        for role, documents in granted.items()
        for document in documents
        for statement in document["Statement"]
        for action in as_list(statement["Action"])
        if statement["Effect"] == "Allow"
    }


def _becoming(principal: str, part: str, policies: str, trust: Document) -> dict[str, Any]:
    """Return what the simulator is asked of a role that wants to become another."""
    account, name = principal.split(":")[4], principal.rpartition("/")[2]
    return {
        "policies": policies,
        "principal": f"arn:aws:sts::{account}:assumed-role/{name}/session",
        "action": "sts:AssumeRole",
        "resource": f"arn:aws:iam::{ACCOUNT}:role/traingrid-{part}-{INSIDE}",
        "account": ACCOUNT,
        "context": {"aws:PrincipalArn": principal},
        "trust": trust,
    }


def test_each_part_becomes_its_own_role_and_nobody_else_does_whatever_they_are_allowed_at_home(
    templates: Mapping[str, Template], trusts: Mapping[str, Document]
) -> None:
    control = templates["traingrid-control"]
    own = {f"own {part}": of_role(control, role) for part, role in AT_HOME.items()}
    named = {**own, "everything": [EVERYTHING], "nothing": []}
    asked, expected = [], []
    for part, who in HOME_ROLES.items():
        for other, by in HOME_ROLES.items():
            right = f"arn:aws:iam::{HOMES}:role/traingrid-{by}"
            for policies, allowed in ((f"own {other}", other == part), ("everything", by == who), ("nothing", False)):
                asked.append(_becoming(right, part, policies, trusts[part]))
                expected.append(ALLOWED if allowed else IMPLICITLY)
        for stranger in (f"arn:aws:iam::{HOMES}:role/Admin", f"arn:aws:iam::999999999999:role/traingrid-{who}"):
            asked.append(_becoming(stranger, part, "everything", trusts[part]))
            expected.append(IMPLICITLY)
    assert verdicts(named, asked) == expected
    by_localcloud = [lets(one["trust"], "sts:AssumeRole", one["context"]["aws:PrincipalArn"]) for one in asked]
    trusted = [
        one["context"]["aws:PrincipalArn"].endswith(f":role/traingrid-{HOME_ROLES[_part(one)]}") for one in asked
    ]
    ours = [HOMES in one["context"]["aws:PrincipalArn"] for one in asked]
    assert by_localcloud == [a and b for a, b in zip(trusted, ours, strict=True)]


def _part(one: Mapping[str, Any]) -> str:
    return re.split("[/-]", one["resource"])[2]


def test_a_person_becomes_a_user_if_homes_own_iam_lets_them(trusts: Mapping[str, Document]) -> None:
    person, stranger = f"arn:aws:iam::{HOMES}:role/Researcher", "arn:aws:iam::999999999999:role/Researcher"
    asked = [
        _becoming(person, "use", "everything", trusts["use"]),
        _becoming(person, "use", "nothing", trusts["use"]),
        _becoming(stranger, "use", "everything", trusts["use"]),
    ]
    assert verdicts({"everything": [EVERYTHING], "nothing": []}, asked) == [ALLOWED, IMPLICITLY, IMPLICITLY]


def test_the_security_page_says_who_may_do_what_in_another_account(granted: Mapping[str, list[Document]]) -> None:
    written = {
        (who, action)
        for whos, may, *_ in rows("Who may do what in another account")
        for who in whos.split(", ")
        for action in quoted(may)
    }
    assert written == _granted(granted)


def test_the_matrix_says_of_every_role_what_it_must_not_do() -> None:
    assert {case.role for case in DENIED if case.breaks in (ACTION, RESOURCE)} == set(PARTS)
    assert len(CASES) >= 100
