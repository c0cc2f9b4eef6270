"""Moves: copies the data of a line into its Region, before its training job is launched."""
