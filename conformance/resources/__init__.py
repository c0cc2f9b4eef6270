"""What claims need to exist in the account: made by plain calls, tagged, shared where that is possible, and undone."""
