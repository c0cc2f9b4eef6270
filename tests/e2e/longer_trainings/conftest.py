"""One grid of two Regions for all tests of this folder, which only `make test-all` runs."""

from tests.e2e.two_regions.conftest import cloud, plane

__all__ = ["cloud", "plane"]
