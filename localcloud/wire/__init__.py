"""Wire protocols: reads, verifies, records and refuses requests in the formats of AWS's services."""
