"""Handwritten digits: four campaigns, four Regions, four Horovod clusters."""
