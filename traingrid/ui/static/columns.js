// Columns of the table of jobs.
//
// `show` returns the text of a cell, and `sort` the value by which rows are sorted. A column with `isOptional` is shown if
// one of the rows has a text in it, and one with `isWide` only on a wide screen. `width` is its track in the grid, and
// `needs` its least width in pixels. Of a column with `isRanked`, jobs that can be the best are first in both directions,
// and jobs without a value last of their tier.
import * as format from "./format.js";

const text = (value) => format.printable(value ?? "");
const elapsedText = (row) => (format.elapsed(row) ? format.duration(format.elapsed(row)) : "");
const leftText = (row) => (format.remaining(row) ? format.rough(format.remaining(row)) : "");
const metric = (kind) => ({ numeric: true, sort: (row) => format.metric(row, kind), show: (row) => format.number(format.metric(row, kind)) });

export const SELECT = { name: "select", title: "", width: "26px", needs: 26 };
export const BEFORE = [
  { name: "name", title: "Job", width: "minmax(104px, 1.4fr)", needs: 104, sort: (row) => row.name, show: (row) => text(row.name) },
  { name: "group", title: "Submission", isWide: true, width: "minmax(110px, 1fr)", needs: 110, sort: (row) => row.key, show: (row) => `${text(row.group?.title)}${row.group?.submissions.length > 1 ? "" : `/${row.index}`}`, hint: (row) => row.key },
  { name: "region", title: "Region", isWide: true, width: "108px", needs: 108, sort: (row) => row.place, show: (row) => text(row.place) },
  { name: "state", title: "State", width: "minmax(96px, .8fr)", needs: 96, sort: (row) => row.state, show: (row) => text(format.stateText(row)) },
  { name: "epoch", isOptional: true, isWide: true, highestFirst: true, title: "Epoch", numeric: true, width: "58px", needs: 58, sort: (row) => row.metrics.epoch ?? -1, show: (row) => format.epochText(row) },
  { name: "loss", isOptional: true, isWide: true, isRanked: true, title: "Loss", width: "68px", needs: 68, ...metric("loss") },
  { name: "accuracy", isOptional: true, isWide: true, isRanked: true, highestFirst: true, title: "Accuracy", width: "76px", needs: 76, ...metric("accuracy") },
];
export const AFTER = [
  { name: "rate", isOptional: true, isWide: true, highestFirst: true, title: "Per second", width: "82px", needs: 82, ...metric("rate") },
  { name: "time", isOptional: true, isWide: true, title: "Duration", numeric: true, width: "88px", needs: 88, sort: format.elapsed, show: elapsedText },
  { name: "left", isOptional: true, isWide: true, title: "Left", numeric: true, width: "62px", needs: 62, sort: format.remaining, show: leftText },
  { name: "dollars", isOptional: true, isWide: true, highestFirst: true, title: "Dollars", numeric: true, width: "66px", needs: 66, sort: format.spent, show: (row) => format.dollars(format.spent(row)) },
  { name: "created", highestFirst: true, isWide: true, title: "Created", numeric: true, width: "88px", needs: 88, sort: (row) => row.created, show: (row) => (row.created ? format.ago(row.created) : ""), hint: (row) => (row.created ? format.moment(row.created) : "") },
  { name: "reason", isOptional: true, isWide: true, title: "Reason", width: "minmax(110px, 1.8fr)", needs: 110, sort: (row) => row.reason, show: (row) => text(row.reason.split("\n")[0]) },
];
