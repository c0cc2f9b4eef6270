// Address: the view that a link to the page opens, in the fragment of the address, which no server receives.

/** Return the parts of the view that the address has: job, group, region, state, campaign, text, days, sort. */
export const readView = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));

/** Write parts of the view into the address; an empty value removes a part. */
export function writeView(parts) {
  const view = new URLSearchParams(location.hash.slice(1));
  for (const [name, value] of Object.entries(parts)) {
    if (value) view.set(name, value);
    else view.delete(name);
  }
  const fragment = view.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
  history.replaceState(null, "", `${location.pathname}${fragment && `#${fragment}`}`);
}
