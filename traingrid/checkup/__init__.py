"""What stands between a grid.yaml and a training job: looked at piece by piece, nothing changed."""
