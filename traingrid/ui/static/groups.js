// Groups: each sweep with all of its submissions, and each other submission, as the page shows them together.

/** Return the groups, newest first; and, by the id of a submission, its group and the time at which it was submitted. */
export function groupsOf(submissions) {
  const groups = new Map(), bySubmission = new Map();
  for (const { id, manifest, sweep, claimed_at, state, arrays } of submissions) {
    const key = sweep ? `sweep:${sweep}` : id, created = Date.parse(claimed_at) / 1000;
    if (!groups.has(key)) groups.set(key, { key, title: sweep ? `sweep ${sweep}` : withoutSuffix(manifest), created, submissions: [], revision: "" });
    const group = groups.get(key);
    group.submissions.push(id);
    group.revision += `${id} ${state} ${arrays}\n`; // lines are recorded with their arrays, and retries add one
    bySubmission.set(id, { group, created });
  }
  return { groups: [...groups.values()], bySubmission };
}

const withoutSuffix = (manifest) => manifest.replace(/\.(csv|jsonl?|txt)$/i, "");
