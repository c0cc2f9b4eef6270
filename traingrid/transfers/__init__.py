"""Transfers: copies and downloads objects of S3, and verifies them."""
