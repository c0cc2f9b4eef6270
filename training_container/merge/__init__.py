"""Merge: the program that merges the models of several jobs into one, in place of the trainer."""
