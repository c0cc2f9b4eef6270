"""S3: events of objects, and bucket policies; the rest is moto's."""
