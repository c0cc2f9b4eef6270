-- Datasets of a campaign without a completed or open run, in one of their Regions each.
-- Parameter: campaign
SELECT replicas.region, replicas.uri AS s3_uri, datasets.dataset AS name, campaigns.hyperparameters
FROM datasets
JOIN replicas ON replicas.dataset = datasets.dataset AND replicas.version = datasets.version
LEFT JOIN campaigns ON campaigns.campaign = datasets.campaign
WHERE datasets.campaign = :campaign
  AND replicas.region = (
    SELECT MIN(region) FROM replicas AS copies
    WHERE copies.dataset = datasets.dataset AND copies.version = datasets.version AND copies.state = 'available'
  )
  AND NOT EXISTS (
    SELECT 1 FROM runs
    WHERE runs.dataset = datasets.dataset AND runs.version = datasets.version
      AND runs.state NOT IN ('Failed', 'Stopped')
  )
ORDER BY datasets.dataset, datasets.version
