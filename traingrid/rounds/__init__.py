"""Rounds: train one model on the data of several Regions, of which only weights leave their Region."""
