"""Ledger: the DynamoDB table of submissions, jobs and cancels."""
