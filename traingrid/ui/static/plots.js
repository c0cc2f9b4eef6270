// Plots: loads uPlot, which a page without plots does not need, and has the appearance that all plots share.
/* global uPlot */
import { el } from "./dom.js";
import { number } from "./format.js";

export const COLOURS = 8;
let library = null;

/** Load uPlot. */
export function loadLibrary() {
  library ??= new Promise((loaded, failed) => {
    const style = el("link", { rel: "stylesheet", href: "/static/uplot/uPlot.min.css" });
    const lost = () => { library = null; failed(new Error("The plots cannot be loaded. Is `traingrid ui` still running?")); };
    document.head.append(style, el("script", { src: "/static/uplot/uPlot.iife.min.js", onload: loaded, onerror: lost }));
  });
  return library;
}

const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Return the colour of a series in the current theme. */
export const colour = (index) => themed(`--series-${index % COLOURS}`);

/** Draw a plot in a host element. `height` is in pixels; the other options are those of uPlot. */
export function drawPlot(host, data, { height, axes: [x, y], ...options }) {
  const axis = { stroke: themed("--quiet"), grid: { stroke: themed("--line"), width: 1 }, ticks: { show: false } };
  const axes = [{ ...axis, size: 34, labelSize: 18, ...x }, { ...axis, size: 58, values: (_, ticks) => ticks.map(number), ...y }];
  return new uPlot({ width: widthOf(host), height, legend: { show: false }, axes, ...options }, data, host);
}

/** Fit plots to the width of their hosts. */
export function resizePlots(plots) {
  for (const plot of plots) {
    const width = widthOf(plot.root.parentElement);
    if (Math.abs(width - plot.width) > 2) plot.setSize({ width, height: plot.height });
  }
}

const widthOf = (host) => Math.max(200, host.clientWidth - 24);
