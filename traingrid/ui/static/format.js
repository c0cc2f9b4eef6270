// Formats of numbers and states.

// Making a format takes much longer than using it.
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const FINAL = new Set(["Completed", "Failed", "Stopped"]);
const LOSS = /loss/i, ACCURACY = /top1|acc/i, RATE = /per_second|throughput/i;

/** Return control characters as visible escapes, as the commands print them. */
export function printable(text) {
  // eslint-disable-next-line no-control-regex
  return String(text).replace(/[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (sign) => "\\x" + sign.codePointAt(0).toString(16).padStart(2, "0"));
}

/** Return lines as they are, each with its control characters as visible escapes. */
export const printableLines = (text) => String(text).split("\n").map(printable).join("\n");

/** Return a whole number with separators. */
export const count = (value) => WHOLE.format(value);

/** Return a number with four significant digits, and large ones with separators. */
export function number(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return "";
  if (Math.abs(value) >= 1000) return WHOLE.format(value);
  return String(Number(value.toPrecision(4)));
}

/** Return seconds as 12 s, 3 min 05 s or 2 h 07 min. */
export function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** Return an estimate of seconds: in minutes or hours from a minute on. */
export function rough(seconds) {
  if (seconds < 60) return "<\u00a01\u00a0min";
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${number(Math.round(seconds / 360) / 10)} h`;
}

/** Return bytes in a unit of which there is at least one. */
export function size(bytes) {
  const unit = Math.min(4, Math.max(0, Math.floor(Math.log(Math.max(bytes, 1)) / Math.log(1000))));
  return `${number(bytes / 1000 ** unit)} ${["bytes", "kB", "MB", "GB", "TB"][unit]}`;
}

/** Return the name of a state in a sentence. */
export const stateTitle = (state) => (state === "InProgress" ? "running" : state.toLowerCase());

export const dollars = (value) => (value ? `$${value.toFixed(value < 100 ? 2 : 0)}` : "");

/** Return the seconds of the current attempt: until now if it trains, and until its end otherwise. */
export function elapsed(row) {
  if (FINAL.has(row.state)) return row.seconds;
  return row.started ? Math.max(0, Date.now() / 1000 - row.started) : 0;
}

/** Return the seconds that the remaining epochs take at the measured pace; 0 if that is not known. */
export function remaining(row) {
  const epoch = row.metrics.epoch ?? 0;
  const isKnown = row.state === "InProgress" && epoch > 0 && epoch <= row.epochs;
  return isKnown ? row.epoch_seconds * (row.epochs - epoch) : 0;
}

/** Return the epoch, and the number of all epochs if it is known. */
export function epochText(row, separator = "/") {
  const epoch = row.metrics.epoch;
  return epoch === undefined ? "" : `${number(epoch)}${row.epochs ? `${separator}${row.epochs}` : ""}`;
}

/** Return the dollars that a job will have cost at the end of its epochs. */
export const projected = (row) => spent(row) + (row.hourly * remaining(row)) / 3600;

/** Return the dollars of all attempts so far; 0 without prices. */
export function spent(row) {
  return row.dollars + (row.hourly && row.started ? (row.hourly * elapsed(row)) / 3600 : 0);
}

/** Return the metric of a kind, preferring that of the validation for the accuracy. */
export function metric(row, kind) {
  const chosen = metricName(Object.keys(row.metrics), kind);
  return chosen === undefined ? undefined : row.metrics[chosen];
}

/** Return the name of the metric of a kind, preferring that of the validation for the accuracy. */
export function metricName(names, kind) {
  const pattern = { loss: LOSS, accuracy: ACCURACY, rate: RATE }[kind];
  const found = names.filter((name) => pattern.test(name));
  return found.find((name) => /^val|top1/i.test(name) && kind === "accuracy") ?? found[0];
}

/** Return how long ago a time was, from now. */
export function ago(seconds) {
  const passed = Math.max(0, Date.now() / 1000 - seconds);
  if (passed < 60) return "<\u00a01\u00a0min\u00a0ago";
  if (passed < 5400) return `${Math.round(passed / 60)} min ago`;
  return passed < 129600 ? `${Math.round(passed / 3600)} h ago` : `${Math.round(passed / 86400)} days ago`;
}

/** Return a time on the user's clock. */
export const moment = (seconds) => MOMENT.format(seconds * 1000);

/** Return a state with its phase and a cancel; the phase of a running job names its state, too. */
export function stateText(row) {
  if (FINAL.has(row.state)) return row.state;
  const phase = row.phase && row.phase !== row.state ? row.phase : "";
  const text = row.state === "InProgress" ? phase || row.state : [row.state, phase].filter(Boolean).join(", ");
  return `${text}${row.cancelled ? ", cancelled" : ""}`;
}

/** Return the CSS class of a state. */
export function stateClass(state) {
  const known = { Completed: "good", Failed: "bad", Stopped: "off", InProgress: "live", Waiting: "wait" };
  return known[state] ?? "idle";
}
