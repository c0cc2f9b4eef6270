"""AWS in memory, for traingrid's own classes: no server, no waiting, and any call may be the last of its caller."""
