"""What exists in AWS: the control stack, a region stack for each training Region, and one file per construct."""
