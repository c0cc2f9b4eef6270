"""The documentation: links resolve, the index is complete, and the table of commands matches the CLI."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from docs_site import api_page, cli_page, manifest_page, measurements_page, trainer_page
from tests.support.sample_deployment import sample_deployment
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.command_groups import GROUPS
from traingrid.grid.deployment import Deployment
from traingrid.grid.file import load_grid
from traingrid.grid.model import GridSettings
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.names import data_bucket

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]
MAX_README_LINES = 150
FIRST_PAGES = 10
"""The pages that a new user reads in order."""
MAX_FIRST_PAGE_LINES = 200
MAX_ARCHITECTURE_LINES = 400
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def deployment_of(grid: GridSettings) -> Deployment:
    return replace(sample_deployment(), grid=grid, images=dict.fromkeys(grid.targets(), "@sha256:1"))


def links(page: Path) -> set[str]:
    """Return the relative links of a page; those in code blocks are examples."""
    found = set(_LINK.findall(_FENCE.sub("", page.read_text())))
    return {link for link in found if not link.startswith(("https:", "http:"))}


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub generates for the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


DIAGRAM = re.compile(r"^### (The way of .+?)$.*?```mermaid\n(.*?)```", re.MULTILINE | re.DOTALL)
IN_DIAGRAM = re.compile(r"([\w/]+\.(?:py|cc))(?:: ([^\]]*))?")
IDENTIFIER = re.compile(r"\b(?:[A-Z]\w+|[a-z]+(?:_[a-z]+)+)\b")
FOLDERS = (ROOT, ROOT / "traingrid", ROOT / "training_container/trainer", ROOT / "training_container")


def test_the_ways_name_files_and_what_is_in_them() -> None:
    ways = DIAGRAM.findall((ROOT / "ARCHITECTURE.md").read_text())
    assert [title for title, _ in ways] == [
        "The way of a line",
        "The way of a grid.yaml key",
        "The way of a training record",
    ]
    for title, diagram in ways:
        for name, content in IN_DIAGRAM.findall(diagram):
            files = [folder / name for folder in FOLDERS if (folder / name).is_file()]
            assert files, f"{title}: {name}"
            words = set(re.findall(r"\w+", files[0].read_text()))
            own = IN_DIAGRAM.split(content)[0]  # the names before the next file
            assert set(IDENTIFIER.findall(own)) <= words, f"{title}: {name}: {own}"


def test_the_index_lists_every_page() -> None:
    listed = {link.partition("#")[0] for link in links(DOCS / "README.md")}
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert pages - listed == {"README.md"}


def count_lines(page: str) -> int:
    return len((ROOT / page).read_text().splitlines())


def test_the_readme_is_short() -> None:
    assert count_lines("README.md") <= MAX_README_LINES


def test_the_manifest_of_the_pytorch_example_is_accepted_by_its_grid() -> None:
    folder = ROOT / "examples/torch_script"
    assert (folder / "source/train.py").is_file()
    local = ",source,train.py,"
    archive = ",s3://torch-data-123456789012-us-east-1/source.tar.gz,train.py,"
    uploaded = (folder / "manifest.csv").read_text().replace(local, archive)
    deployment = deployment_of(load_grid(folder / "grid.yaml"))
    jobs = jobs_of_lines(parse(uploaded.encode(), deployment), deployment, "0123abcd")
    assert [(job.launcher, job.ranks, job.hyperparameters) for job in jobs] == [
        ("torchrun", 2, {"learning_rate": rate}) for rate in ("0.01", "0.001")
    ]


def test_the_default_grid_accepts_the_manifest_of_the_readme() -> None:
    lines = re.findall(r"^([\w-]+),(s3://\S+)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(lines) == 4
    grid = load_grid(ROOT / "grid.yaml")
    buckets = {region: [S3Uri.parse(uri).bucket] for region, uri in lines}
    regions = {name: region.model_copy(update={"data_buckets": buckets[name]}) for name, region in grid.regions.items()}
    readable = deployment_of(grid.model_copy(update={"regions": regions}))
    own = [(region, f"s3://{data_bucket(grid.name, readable.account, region)}/2026-10") for region, _ in lines]
    for manifest, deployment in ((lines, readable), (own, deployment_of(grid))):
        content = "".join(f"{region},{uri}\n" for region, uri in manifest).encode()
        jobs = jobs_of_lines(parse(content, deployment), deployment, "0123abcd")
        assert [(job.region, job.instance_type) for job in jobs] == [
            (region, grid.job.instance_type) for region, _ in lines
        ]


def test_the_first_pages_and_the_architecture_are_short() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = re.findall(r"[\w/.-]+\.md", navigation)[:FIRST_PAGES]
    assert (pages[0], pages[-1]) == ("README.md", "docs/operations.md")
    limits = dict.fromkeys(pages, MAX_FIRST_PAGE_LINES) | {"ARCHITECTURE.md": MAX_ARCHITECTURE_LINES}
    assert {page: lines for page in limits if (lines := count_lines(page)) > limits[page]} == {}


def test_the_page_of_the_python_api_is_up_to_date() -> None:
    assert (DOCS / "api.md").read_text() == api_page.page(), "run `make api-page`"


def test_the_reference_of_the_command_is_up_to_date() -> None:
    assert (DOCS / "cli.md").read_text() == cli_page.page(), "run `make cli-page`"


def test_the_table_of_manifest_fields_is_up_to_date() -> None:
    text = (DOCS / "manifest-fields.md").read_text()
    assert manifest_page.page(text) == text, "run `make manifest-page`"


def test_the_page_for_users_of_the_sagemaker_sdk_is_up_to_date() -> None:
    assert (DOCS / "sagemaker-sdk.md").read_text() == trainer_page.page(), "run `make api-page`"


def test_the_tables_of_measurements_are_those_of_the_results() -> None:
    text = (DOCS / "measurements.md").read_text()
    assert text == measurements_page.page(text), "run `.venv/bin/python -m docs_site.measurements_page`"


def test_every_result_has_a_table() -> None:
    results = {path.stem for path in (ROOT / "bench/results").glob("*.json")}
    reliability = {"faults", "faults-eks"}  # in docs/reliability.md
    assert set(measurements_page.results((DOCS / "measurements.md").read_text())) == results - reliability


def test_the_tables_of_commands_list_every_command_in_its_group() -> None:
    page = (DOCS / "commands.md").read_text()
    sections = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    for group, commands in GROUPS.items():
        assert list(dict.fromkeys(re.findall(r"`traingrid ([a-z]+)[^`]*`", sections[group]))) == list(commands), group
