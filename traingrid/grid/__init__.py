"""Grid: the model of grid.yaml, its file, and names and ARNs of a deployment."""
