"""The command `traingrid`."""
