// Groups: each sweep and each rounds with all of its submissions, and each other submission, as the page shows them together.

/** Return the groups, newest first; and, by the id of a submission, its group and the time at which it was submitted. */
export function groupsOf(submissions) {
  const groups = new Map(), bySubmission = new Map();
  for (const { id, manifest, series, claimed_at, state, arrays } of submissions) {
    const key = series || id, created = Date.parse(claimed_at) / 1000, [kind, name] = series.split(/:(.*)/s);
    if (!groups.has(key)) {
      const title = series ? `${kind} ${name}` : withoutSuffix(manifest);
      groups.set(key, { key, title, rounds: kind === "rounds" ? name : "", created, submissions: [], revision: "" });
    }
    const group = groups.get(key);
    group.submissions.push(id);
    group.revision += `${id} ${state} ${arrays}\n`; // lines are recorded with their arrays, and retries add one
    bySubmission.set(id, { group, created });
  }
  const named = new Map();
  for (const { title } of groups.values()) named.set(title, (named.get(title) ?? 0) + 1);
  for (const group of groups.values()) if (named.get(group.title) > 1) group.title += ` (${group.key})`; // of one manifest
  return { groups: [...groups.values()], bySubmission };
}

const withoutSuffix = (manifest) => manifest.replace(/\.(csv|jsonl?|txt)$/i, "");
