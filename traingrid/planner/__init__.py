"""Planner: chooses Region, instance type and purchase option for each job of a manifest, at the lowest cost.

NumPy and HiGHS are the extra `plan`; only `traingrid plan` imports this package.
"""
