"""A container that exits immediately."""

print("nothing to do", flush=True)
