-- The ten completed runs of a campaign with the lowest accuracy, again with another learning rate.
-- Parameters: campaign, learning_rate
SELECT runs.region, replicas.uri AS s3_uri, runs.name, runs.instance_type, runs.instances AS instance_count,
  runs.hyperparameters, :learning_rate AS "hp.learning_rate"
FROM runs
JOIN replicas ON replicas.dataset = runs.dataset AND replicas.version = runs.version AND replicas.region = runs.region
WHERE runs.campaign = :campaign AND runs.state = 'Completed' AND runs.top1 IS NOT NULL AND replicas.state = 'available'
ORDER BY runs.top1, runs.submission, runs.job
LIMIT 10
