-- The newest version of every dataset, with the hyperparameters of its campaign.
SELECT replicas.region, replicas.uri AS s3_uri, datasets.dataset AS name, campaigns.hyperparameters,
  campaigns.campaign AS "tag.campaign"
FROM datasets
JOIN campaigns ON campaigns.campaign = datasets.campaign
JOIN replicas ON replicas.dataset = datasets.dataset AND replicas.version = datasets.version
WHERE replicas.region = (
    SELECT MIN(region) FROM replicas AS copies
    WHERE copies.dataset = datasets.dataset AND copies.version = datasets.version AND copies.state = 'available'
  )
  AND datasets.created_at = (
    SELECT MAX(created_at) FROM datasets AS versions WHERE versions.dataset = datasets.dataset
  )
ORDER BY datasets.campaign, datasets.dataset
