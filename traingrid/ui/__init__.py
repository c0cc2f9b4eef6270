"""Local page: shows the jobs of a grid in a browser on the same machine."""
