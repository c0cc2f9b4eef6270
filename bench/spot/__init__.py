"""`make bench-spot`: simulates jobs with deadlines over spot capacity, under traingrid's rule and others."""
