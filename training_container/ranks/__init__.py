"""Ranks: the programs that the launcher starts in every process slot."""
