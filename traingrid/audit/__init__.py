"""Audit: compares ledger, training jobs and Batch children, and reports violations."""
