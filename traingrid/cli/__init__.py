"""Command line: the command `traingrid`."""
