"""Examples: each folder contains a manifest or its data, and instructions."""
