"""Controllers: the control loops of a cluster. Each one compares objects with their desired state, and changes them."""
