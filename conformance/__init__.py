"""Conformance suite: assumptions about AWS that traingrid depends on, checked in localcloud or in a real account."""
