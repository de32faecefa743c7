// How the service is: fast enough, keeping up, without errors.

import { draw, isDark, lineColour, local } from "./charts.js";
import { $, fill, h, text } from "./dom.js";
import { count, duration, known, milliseconds, percent, perSecond, plural } from "./format.js";

const SECONDS = 300;
const LINE = 10;
const DRAWN_EVERY = 2000;
const PERCENTILES = [
  ["p50", "Median"],
  ["p90", "90th percentile"],
  ["p99", "99th percentile"],
  ["p999", "99.9th percentile"],
];

export class Health {
  constructor(app) {
    this.app = app;
    this.recent = [];
    this.drawnAt = 0;
  }

  take({ health, recent }) {
    this.figures = health;
    if (recent) this.recent = recent;
    else if (health.second) this.recent.push(health.second);
    this.recent = this.recent.slice(-SECONDS);
    $("degraded").hidden = !health.degraded;
    if (!$("health").hidden) this.show();
  }

  enter() {
    this.drawnAt = 0;
    if (this.figures) this.show();
    else text($("health-sentence"), "Waiting for the first figures…");
  }

  show() {
    const { rank, rates, errors } = this.figures;
    const minute = rank.minute.count;
    text(
      $("health-sentence"),
      minute
        ? `${share(rank.minute.within)} of the rankings of the last minute were answered within 10 ms.`
        : rank.start.count
          ? `No rankings in the last minute; since the start, ${share(rank.start.within)} were answered within 10 ms.`
          : "No rankings since the start.",
    );
    text(
      $("health-facts"),
      [`up ${duration(this.figures.up)}`, `${plural(this.figures.shown, "item")} shown`, `snapshot ${duration(this.figures.snapshot_age)} ago`, this.figures.listeners === 1 ? "1 page open" : `${this.figures.listeners} pages open`].join(" · "),
    );
    this.tiles([
      ["Rankings per second", perSecond(rates.rank)],
      ["Events per second", perSecond(rates.events)],
      ["Feedback per second", perSecond(rates.feedback)],
      ["Waiting to be written", count(this.figures.waiting), this.figures.waiting > 1000],
      ["Store behind", this.figures.lag < 0.25 ? "0 s" : duration(this.figures.lag), this.figures.lag > 2],
      ["Time of a commit", milliseconds(this.figures.commit)],
      ["Failed in the last minute", count(errors.failed_minute), errors.failed_minute > 0],
      ["Refused in the last minute", count(errors.refused_minute)],
    ]);
    fill(
      $("spread").tBodies[0],
      h("tr", {}, h("th", { scope: "row" }, "Within 10 ms"), h("td", { class: "num strong" }, share(rank.minute.within)), h("td", { class: "num strong" }, share(rank.start.within))),
      PERCENTILES.map(([name, label]) => h("tr", {}, h("th", { scope: "row" }, label), ...[rank.minute, rank.start].map((each) => h("td", { class: "num" }, milliseconds(each[name]))))),
      h("tr", {}, h("th", { scope: "row" }, "Rankings"), h("td", { class: "num" }, count(rank.minute.count)), h("td", { class: "num" }, count(rank.start.count))),
    );
    if (Date.now() - this.drawnAt >= DRAWN_EVERY) this.drawCharts();
  }

  tiles(rows) {
    fill(
      $("tiles"),
      rows.map(([label, value, alarming]) => h("div", { class: alarming ? "alarm" : undefined }, h("dt", {}, label), h("dd", {}, value))),
    );
  }

  drawCharts() {
    if (!this.figures) return;
    this.drawnAt = Date.now();
    const x = this.recent.map((row) => local(row[0]));
    const end = this.recent.at(-1)?.[0] ?? Date.now();
    const [blue, orange, grey] = isDark() ? ["#4BA6E0", "#F2884B", "#a3abb5"] : ["#0072B2", "#D55E00", "#59616b"];
    const line = (name, place, color, factor = 1, format = ",.0f") => ({
      type: "scatter",
      mode: "lines",
      name,
      x,
      y: this.recent.map((row) => (known(row[place]) ? factor * row[place] : null)),
      line: { color, width: 2 },
      connectgaps: false,
      hovertemplate: `%{y:${format}}`,
    });
    const slowest = Math.max(...this.recent.map((row) => 1000 * (row[4] ?? 0)), 2 * LINE);
    const legend = { showlegend: true, legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", font: { size: 13 } }, margin: { t: 30 } };
    const time = { type: "date", range: [end - 1000 * SECONDS, end].map(local), dtick: 60e3, tickformatstops: [], tickformat: "%H:%M", hoverformat: "%H:%M:%S" };
    draw($("latency"), [line("99th percentile", 4, orange, 1000, ".2f"), line("Median", 3, blue, 1000, ".2f")], {
      ...legend,
      x: time,
      y: { type: "log", range: [-1, Math.log10(1.3 * slowest)], tickvals: [0.1, 1, 10, 100, 1000, 10000], ticktext: ["0.1", "1", "10", "100", "1,000", "10,000"] },
      shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: LINE, y1: LINE, line: { color: grey, width: 1.5, dash: "dash" } }],
      annotations: [{ xref: "paper", x: 0.004, xanchor: "left", y: Math.log10(LINE), yanchor: "bottom", text: "10 ms", showarrow: false, font: { size: 12, color: lineColour() } }],
    });
    draw($("flow"), [line("Rankings", 1, blue, 1, ",.1f"), line("Events", 2, orange, 1, ",.1f")], { ...legend, x: time });
    const last = this.figures.rank.minute;
    $("latency").setAttribute("aria-label", `Line chart of the time to answer a ranking over the last five minutes, against a line at 10 ms. In the last minute: median ${milliseconds(last.p50)}, 99th percentile ${milliseconds(last.p99)}.`);
    $("flow").setAttribute("aria-label", `Line chart of rankings and events per second over the last five minutes. Now: ${perSecond(this.figures.rates.rank)} rankings and ${perSecond(this.figures.rates.events)} events.`);
  }
}

function share(x) {
  if (!known(x)) return "–";
  if (x === 1) return "100 %";
  return percent(Math.min(x, 0.99999), x > 0.9999 ? 3 : 2);
}
