"""A manifest tried out before money is spent: the real grid, in a localcloud of its own, on a bad day."""
