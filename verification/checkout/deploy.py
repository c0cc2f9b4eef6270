"""Deployment of a grid into a localcloud: `cdk bootstrap`, `cdk deploy --all`, and pushing the images."""

import os
from pathlib import Path

import boto3

from localcloud.credentials.environments import user_environment
from localcloud.processes.process_group import ProcessGroup
from traingrid.errors import TraingridError
from traingrid.grid.file import load_grid
from verification.checkout.image_pushes import push_images

_CHECKOUT = Path(__file__).resolve().parents[2]
# In addition to the settings in cdk.json: the CLI would check npm for a newer version and send usage statistics. The
# CDK's own validation of the templates takes more than half of a synthesis; `make check` runs it on every kind of grid.
_QUIET = {"CDK_DISABLE_VERSION_CHECK": "1", "CDK_DISABLE_CLI_TELEMETRY": "true", "CDK_VALIDATION": "false"}
_LAST_LINES = 30


def deploy(endpoint: str, grid_file: Path, work: Path) -> None:
    """Deploy the stacks of this checkout with the real CDK CLI, and push their images.

    Args:
        endpoint: Address of the localcloud.
        work: Folder for the CLI's logs and for cdk.out.

    Raises:
        TraingridError: If the CLI failed; the message ends with the last lines of its log.
    """
    grid = load_grid(grid_file)
    regions = sorted({grid.home, *grid.regions})
    templates = str(work / "cdk.out")  # synthesised once; otherwise each command would repeat it
    run_cdk(endpoint, work, "synth", "--quiet", "--context", f"grid={grid_file.resolve()}", "--output", templates)
    home, other_accounts = _account(endpoint), grid.other_accounts()
    at_home = sorted({grid.home, *grid.at_home()})
    run_cdk(endpoint, work, "bootstrap", "--app", templates, *(f"aws://{home}/{region}" for region in at_home))
    for account in sorted(
        set(other_accounts.values())
    ):  # by a user of that account, who trusts this account to deploy there
        environments = [f"aws://{account}/{region}" for region, owner in other_accounts.items() if owner == account]
        trust = ("--trust", home, "--cloudformation-execution-policies", "arn:aws:iam::aws:policy/AdministratorAccess")
        run_cdk(endpoint, work, "bootstrap", "--app", templates, *trust, *environments, account=account)
    at_once = ("--concurrency", str(len(regions)))
    run_cdk(endpoint, work, "deploy", "--app", templates, "--all", "--require-approval", "never", *at_once)
    for _ in push_images(endpoint, grid):
        pass


def _account(endpoint: str) -> str:
    keys = user_environment(endpoint)
    sts = boto3.client(
        "sts",
        region_name=keys["AWS_REGION"],
        endpoint_url=endpoint,
        aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
    )
    return str(sts.get_caller_identity()["Account"])


def run_cdk(endpoint: str, work: Path, *arguments: str, account: str = "") -> None:
    """Run the checkout's CDK CLI against a localcloud as a user of `account` (default: the localcloud's own account).

    The log is `work`/cdk-<first argument>.log.

    Raises:
        TraingridError: If the CLI failed or is not installed.
    """
    log = work / f"cdk-{arguments[0]}.log"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = {**inherited, **user_environment(endpoint, account_id=account), **_QUIET}
    environment["CDK_HOME"] = str(work / "cdk-home")  # the user's CDK home would keep an account id for our keys
    environment["TMPDIR"] = str(work)  # jsii leaves its unpacked files there if the CLI is killed
    environment["JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION"] = "20"
    program = _CHECKOUT / "node_modules/.bin/cdk"
    if not program.exists():
        raise TraingridError(f"The CDK CLI is not installed: {program} does not exist.", "Install it: make setup.")
    with log.open("w") as output:
        cli = ProcessGroup(
            [str(program), *arguments],
            environment=environment,
            working_directory=_CHECKOUT,
            on_line=lambda line: print(line, file=output),
        )
        try:
            code = cli.wait()
        finally:
            cli.kill()  # includes its synthesis; Ctrl-C does not reach a process in another session
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
        raise TraingridError(f"`cdk {arguments[0]}` failed:\n{tail}", f"The whole log is in {log}.")
