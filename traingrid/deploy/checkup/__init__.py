"""Check-up: finds problems that prevent a grid's training jobs, in the account and in the deployment; read-only."""
