"""Resources that claims need: created by plain API calls, tagged, shared where possible, and deleted at the end."""
