"""The Lambda functions of the control plane: one flat file each, glue only."""
