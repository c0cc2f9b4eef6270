// Summary: everything that the page counts, in one pass over all jobs.
import * as format from "./format.js";

const MOST_RUNNING = 5, MOST_FAILED = 3;

/** Return the counts of states, Regions and campaigns, the dollars, and the first jobs of each Region. */
export function summarise(rows, regionNames) {
  const found = { states: new Map(), campaigns: new Map(), regions: new Map(), spent: 0, projected: 0 };
  for (const name of regionNames) found.regions.set(name, emptyRegion());
  for (const row of rows) {
    const state = row.state;
    add(found.states, state);
    found.spent += format.spent(row);
    found.projected += format.projected(row);
    if (row.campaign) addState(found.campaigns, row.campaign, state);
    if (row.region) addTo(found.regions, row, state);
  }
  return found;
}

const emptyRegion = () => ({ jobs: 0, states: new Map(), running: 0, first: [] });

function addTo(regions, row, state) {
  let region = regions.get(row.region);
  if (!region) regions.set(row.region, region = emptyRegion());
  region.jobs += 1;
  add(region.states, state);
  if (state !== "InProgress" && state !== "Stopping") return;
  region.running += 1;
  if (region.first.length < MOST_RUNNING) region.first.push(row);
}

/** Return the number of failed jobs of each class of failures, the first of them, and their groups. */
export function failuresOf(rows) {
  const failures = new Map();
  for (const row of rows) {
    if (row.state !== "Failed") continue;
    let failure = failures.get(row.failure);
    if (!failure) failures.set(row.failure, failure = { jobs: 0, first: [], groups: new Set() });
    failure.jobs += 1;
    failure.groups.add(row.group);
    if (failure.first.length < MOST_FAILED) failure.first.push(row);
  }
  return failures;
}

function addState(groups, name, state) {
  let states = groups.get(name);
  if (!states) groups.set(name, states = new Map());
  add(states, state);
}

function add(counts, key) {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
