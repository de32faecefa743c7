// How much each position of a ranking is looked at, and what an impression counts there.

import { get } from "./api.js";
import { draw, isDark } from "./charts.js";
import { $, fill, h, text } from "./dom.js";

const figure = (x) => (x === null || x === undefined ? "–" : x.toFixed(2));

/** Show the curve with its certainty; nothing while there is none. */
export async function showPositions(signal) {
  const told = await get("/v1/positions", {}, signal);
  const rows = told.positions;
  $("positions").hidden = rows.length < 2;
  if (rows.length < 2) return;
  text($("positions-sentence"), told.sentence);
  fill(
    $("positions-table"),
    h("thead", {}, h("tr", {}, ["Position", "Looked at", "95 % interval", "Counts"].map((name) => h("th", { scope: "col", class: "num" }, name)))),
    h(
      "tbody",
      {},
      rows.map((row) => h("tr", {}, h("th", { scope: "row", class: "num" }, String(row.position)), h("td", { class: "num" }, figure(row.looked)), h("td", { class: "num" }, row.looked === null ? "–" : `${figure(row.low)} to ${figure(row.high)}`), h("td", { class: "num strong" }, figure(row.worth)))),
    ),
  );
  const chart = $("positions-chart");
  const [blue, orange] = isDark() ? ["#4BA6E0", "#F2884B"] : ["#0072B2", "#D55E00"];
  const known = rows.filter((row) => row.looked !== null);
  const x = known.map((row) => row.position);
  const edge = (y, more = {}) => ({ type: "scatter", mode: "lines", x, y, line: { width: 0, color: blue }, hoverinfo: "skip", showlegend: false, ...more });
  const traces = [
    edge(known.map((row) => row.high)),
    edge(known.map((row) => row.low), { fill: "tonexty", fillcolor: `${blue}33` }),
    { type: "scatter", mode: "lines+markers", name: "Looked at", x, y: known.map((row) => row.looked), line: { color: blue, width: 2 }, hovertemplate: "%{y:.2f}" },
    { type: "scatter", mode: "lines", name: "Counts", x: rows.map((row) => row.position), y: rows.map((row) => row.worth), line: { color: orange, width: 2, dash: "dot" }, hovertemplate: "%{y:.2f}" },
  ];
  const last = rows.at(-1);
  chart.setAttribute("aria-label", `Line chart of how much each of ${rows.length} positions is looked at, relative to the first, with 95 % intervals, and of what an impression counts there: ${figure(last.worth)} at the last.`);
  const highest = Math.max(1.1, ...known.map((row) => Math.min(row.high, 2)));
  await draw(chart, traces, {
    x: { type: "linear", dtick: rows.length > 25 ? 5 : 1, tickformatstops: [], hoverformat: "d" },
    y: { range: [0, highest] },
    showlegend: true,
    legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 13 } },
    margin: { t: 30 },
  });
}
