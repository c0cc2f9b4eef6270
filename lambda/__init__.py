"""Handlers of the control plane's Lambda functions: one file each, without logic of their own."""

from traingrid.log import configure_function

configure_function()
