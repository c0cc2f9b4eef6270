"""The AWS resources of a grid: its stacks, and one module for each construct."""
