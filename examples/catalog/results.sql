-- Accuracy and dollars of each campaign: those that the plan expected, with the move, and those of the training.
SELECT campaign, region, state, ROUND(CAST(top1 AS NUMERIC), 4) AS top1,
  ROUND(CAST(estimated_dollars AS NUMERIC), 2) AS planned_dollars, ROUND(CAST(dollars AS NUMERIC), 2) AS training_dollars
FROM runs
ORDER BY top1 DESC
