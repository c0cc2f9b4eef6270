"""Recipe: hyperparameters, schedule, decisions and log of the image's trainers, for every framework. Imports none."""
