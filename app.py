"""CDK application: synthesizes the stacks of the grid that grid.yaml describes.

To deploy another file: `npx cdk deploy --all -c grid=examples/digits/grid.yaml`, or name it in the variable
TRAINGRID_GRID_FILE, which `traingrid` reads, too.
"""

import os
import sys
from pathlib import Path

from aws_cdk import App, Tags

from stacks.builds_stack import BuildsStack
from stacks.catalog_follower import LAYER as CATALOG_LAYER
from stacks.control_stack import ControlStack
from stacks.grants import acknowledge
from stacks.guard_stack import GuardStack
from stacks.image_tables import framework_images
from stacks.images_stack import ImagesStack
from stacks.region_stack import RegionStack
from stacks.registry_stack import RegistryStack
from stacks.role_limits import refuse_long_policies
from traingrid import names
from traingrid.errors import UsageError
from traingrid.grid.catalog import DSQL_CATALOG
from traingrid.grid.confinement import NEXT_STEP, RULE, unconfined
from traingrid.grid.file import load_grid
from traingrid.grid.framework_images import to_environment
from traingrid.grid.model import GridError, GridSettings

ROOT = Path(__file__).parent
LAYER = ROOT / "build" / "layer"


class MissingLayerError(Exception):
    """Raised when the folder with the libraries of the Lambda functions is missing."""


def build_app(grid: GridSettings, *, layer: Path = LAYER, app: App | None = None) -> App:
    """Return an app with all stacks of `grid`: images, control plane, guard, and one stack for each training Region.

    The same grid and files always produce the same templates: nothing is looked up in AWS.

    Args:
        layer: Folder with a subfolder `python` that holds the libraries that the Lambda runtime lacks; for
            `catalog: dsql`, it also has the subfolder `catalog/python`.
        app: The app to add the stacks to; None creates one.

    Raises:
        MissingLayerError: `layer` was not prepared.
        UsageError: An image of the grid cannot be resolved.
    """
    if not (layer / "python").is_dir():
        raise MissingLayerError(f"{layer}/python: the libraries of the Lambda functions are missing. Run `make setup`.")
    if grid.catalog == DSQL_CATALOG and not (layer / CATALOG_LAYER / "python").is_dir():
        missing = f"{layer}/{CATALOG_LAYER}/python: the libraries of the catalog are missing."
        raise MissingLayerError(f"{missing} Run `make setup-catalog`.")
    app = app or App()
    Tags.of(app).add(names.TAG_GRID, grid.name)
    acknowledge(
        app,
        "NIST.800.53.R5-IAMNoInlinePolicy",
        "Each policy belongs to one role and is deleted with it; a managed policy could be attached to other roles",
    )
    frameworks = framework_images(grid)
    images = ImagesStack(app, grid=grid)
    for region in grid.replicas():
        images.add_stack_dependency(RegistryStack(app, grid=grid, region=region))
    builds = BuildsStack(app, grid=grid, layer=layer, images=images)
    builds.add_stack_dependency(images)  # separate, so that a failed build does not delete repositories and images
    control = ControlStack(app, grid=grid, layer=layer, images=builds, frameworks=to_environment(frameworks))
    control.add_stack_dependency(builds)
    guard = GuardStack(app, grid=grid, control=control)
    for region in grid.regions:
        # The rule in a Region sends its events to the home bus, which must exist first.
        stack = RegionStack(app, grid=grid, region=region, frameworks=list(frameworks.values()))
        stack.add_stack_dependency(control)
        guard.add_stack_dependency(stack)  # CloudFormation destroys in reverse order: the guard must be destroyed first
    return app


def main() -> int:
    """Synthesize the grid of the context key `grid`, of TRAINGRID_GRID_FILE, or of grid.yaml.

    Returns:
        2 if its input must be corrected.
    """
    app = App()
    path = app.node.try_get_context("grid") or os.environ.get(names.GRID_FILE_VARIABLE) or "grid.yaml"
    try:
        grid = load_grid(path)
        build_app(grid, app=app)  # relative to the folder of cdk.json, where the CDK CLI runs this
        refuse_long_policies(app.synth())
    except (MissingLayerError, GridError) as error:
        print(error, file=sys.stderr)
        return 2
    except UsageError as error:  # errors raised by the stacks name the key, but not the file
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    for region in unconfined(grid):
        print(f"{path}: warning: regions.{region}.residency: {RULE}. {NEXT_STEP}.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
