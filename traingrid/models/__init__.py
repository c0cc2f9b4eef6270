"""Models: the models of earlier jobs with which lines begin."""
