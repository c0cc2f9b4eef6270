-- Each dataset version without a completed or open run, where its data is.
SELECT replicas.region, replicas.uri AS s3_uri, datasets.dataset AS name, '2m' AS estimated_runtime
FROM datasets
JOIN replicas ON replicas.dataset = datasets.dataset AND replicas.version = datasets.version
WHERE replicas.state = 'available'
  AND NOT EXISTS (
    SELECT 1 FROM runs
    WHERE runs.dataset = datasets.dataset AND runs.version = datasets.version
      AND runs.state NOT IN ('Failed', 'Stopped')
  )
ORDER BY datasets.dataset
