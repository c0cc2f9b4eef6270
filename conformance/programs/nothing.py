"""A container that ends at once."""

print("nothing to do", flush=True)
