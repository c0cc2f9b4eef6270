-- The newest dataset of every Region.
SELECT replicas.region, replicas.uri AS s3_uri, datasets.dataset AS name
FROM replicas
JOIN datasets ON datasets.dataset = replicas.dataset AND datasets.version = replicas.version
WHERE replicas.state = 'available'
  AND NOT EXISTS (
    SELECT 1 FROM replicas AS others
    JOIN datasets AS newer ON newer.dataset = others.dataset AND newer.version = others.version
    WHERE others.region = replicas.region AND others.state = 'available'
      AND (newer.created_at > datasets.created_at
        OR (newer.created_at = datasets.created_at AND newer.dataset > datasets.dataset))
  )
  AND datasets.created_at IS NOT NULL
ORDER BY replicas.region
