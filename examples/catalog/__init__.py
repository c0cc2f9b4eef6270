"""Example: campaigns that register by upload alone, a plan that moves one of them, and their results in SQL."""
