"""Fault suite: experiments that inject faults into a deployed grid in localcloud and check the grid's invariants."""
