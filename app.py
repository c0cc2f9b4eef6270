"""What `cdk deploy` runs: the stacks of the grid that grid.yaml describes.

Another file: `npx cdk deploy --all -c grid=examples/digits/grid.yaml`.
"""

import sys
from pathlib import Path

from aws_cdk import App, Tags

from stacks.builds_stack import BuildsStack
from stacks.control_stack import ControlStack
from stacks.grants import acknowledge
from stacks.guard_stack import GuardStack
from stacks.image_tables import framework_images
from stacks.images_stack import ImagesStack
from stacks.region_stack import RegionStack
from stacks.registry_stack import RegistryStack
from traingrid import names
from traingrid.errors import UsageError
from traingrid.framework_images import to_environment
from traingrid.grid import Grid, GridError, load_grid

ROOT = Path(__file__).parent
LAYER = ROOT / "build" / "layer"


class MissingLayerError(Exception):
    """The folder with the Lambda functions' libraries is not there."""


def build_app(grid: Grid, *, layer: Path = LAYER, app: App | None = None) -> App:
    """Return an app with the stacks of images, the control stack and one stack for each training Region of `grid`.

    `layer` is the folder whose subfolder `python` holds what the Lambda functions need beyond their runtime; `app` is
    the app to fill, a new one if None. The same grid and files give the same templates: nothing is looked up.
    Raises MissingLayerError for a layer that was not prepared, and UsageError for images that cannot be found.
    """
    if not (layer / "python").is_dir():
        raise MissingLayerError(
            f"{layer}/python: the Lambda functions' libraries are not there. Run `make setup` once."
        )
    app = app or App()
    Tags.of(app).add(names.TAG_GRID, grid.name)
    acknowledge(
        app,
        "NIST.800.53.R5-IAMNoInlinePolicy",
        "Each policy is one role's alone and goes with it; a managed one could be attached to others",
    )
    frameworks = framework_images(grid)
    images = ImagesStack(app, grid=grid)
    for region in grid.replicas():
        images.add_stack_dependency(RegistryStack(app, grid=grid, region=region))
    builds = BuildsStack(app, grid=grid, layer=layer, images=images)
    builds.add_stack_dependency(images)  # a build that fails leaves the repositories, and the images that are in them
    control = ControlStack(app, grid=grid, layer=layer, images=builds, frameworks=to_environment(frameworks))
    control.add_stack_dependency(builds)
    guard = GuardStack(app, grid=grid)
    for region in grid.regions:
        # The rule of a Region sends its events to the home bus, which must be there first.
        stack = RegionStack(app, grid=grid, region=region, frameworks=list(frameworks.values()))
        stack.add_stack_dependency(control)
        guard.add_stack_dependency(stack)  # what is deployed last is destroyed first
    return app


def main() -> int:
    """Synthesise the grid of the context key `grid`, grid.yaml by default; return 2 if there is something to mend."""
    app = App()
    path = app.node.try_get_context("grid") or "grid.yaml"
    try:
        build_app(load_grid(path), app=app)  # the CDK CLI runs this in the folder of cdk.json
    except (MissingLayerError, GridError) as error:
        print(error, file=sys.stderr)
        return 2
    except UsageError as error:  # what only the stacks find out knows its key, and not the file
        print(f"{path}: {error}", file=sys.stderr)
        return 2
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
