// What variants have learned of features, by a model or for a prior: effects of features, and predictions against what came of them.

import { get } from "./api.js";
import { draw, lineColour } from "./charts.js";
import { $, fill, h, interval } from "./dom.js";
import { count, label, percent } from "./format.js";

const REFRESH = 15000;
const SHOWN = 12;

export class Models {
  constructor(overview) {
    this.overview = overview;
    this.models = [];
    setInterval(() => {
      if (!document.hidden && overview.visible && this.models.length) this.load(overview.name);
    }, REFRESH);
  }

  async load(name) {
    const { models } = await get(`/v1/experiments/${encodeURIComponent(name)}/models`);
    if (name !== this.overview.name) return;
    this.models = models;
    this.show();
  }

  show() {
    $("models").hidden = !this.models.length;
    fill($("models-body"), this.models.map((model) => this.one(model)));
    this.draw();
  }

  one(model) {
    const shown = model.effects.slice(0, SHOWN);
    const from = Math.min(0, ...shown.map((each) => each.low));
    const to = Math.max(0, ...shown.map((each) => each.high));
    const colour = this.overview.colour[model.variant];
    const digits = (x) => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(2);
    return h(
      "div",
      { class: "model" },
      h("h3", {}, h("span", { class: "name" }, h("span", { class: "swatch", style: { background: colour } }), label(model.variant)), " ", h("span", { class: "spec" }, model.model === "prior" ? "prior by features of items" : model.model)),
      h("p", { class: "note" }, `Learned from ${count(model.impressions)} impressions of ${count(model.items)} items${model.behind ? `; ${count(model.behind)} events behind` : ""}.`),
      leftOut(model),
      h(
        "div",
        { class: "pair even" },
        shown.length
          ? h(
              "div",
              { class: "scroll", tabindex: "0", role: "region", "aria-label": `Effects by ${label(model.variant)}` },
              h(
                "table",
                { class: "board effects" },
                h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Feature"), h("th", { scope: "col", class: "num" }, "Effect"), h("th", { scope: "col" }, "95 % interval"))),
                h(
                  "tbody",
                  {},
                  shown.map((each) =>
                    h(
                      "tr",
                      {},
                      h("th", { scope: "row" }, each.name),
                      h("td", { class: "num strong", "data-label": "Effect" }, digits(each.effect)),
                      h("td", { class: "band", "data-label": "95 % interval" }, interval(each.low, each.high, each.effect, [from, to], { colour, zero: 0 }), h("span", { class: "ends" }, `${digits(each.low)} to ${digits(each.high)}`)),
                    ),
                  ),
                ),
              ),
            )
          : h("p", { class: "note" }, "Neither items nor contexts had features yet."),
        h("div", { class: "chart square", role: "img", "aria-label": `Predicted and observed rates of ${label(model.variant)}: ${words(model)}`, "data-model": model.variant }),
      ),
    );
  }

  draw() {
    for (const model of this.models) {
      const element = [...$("models-body").querySelectorAll("[data-model]")].find((each) => each.dataset.model === model.variant);
      const rows = model.calibration.filter((row) => row.predicted > 0).map((row) => ({ ...row, ...inPercent(row) }));
      if (!element || !rows.length) continue;
      const all = rows.flatMap((row) => [row.predicted, row.observed]).filter((rate) => rate > 0);
      const ends = [Math.min(...all) / 1.5, Math.max(...all) * 1.5];
      const most = Math.max(...rows.map((row) => row.impressions));
      const colour = this.overview.colour[model.variant];
      const traces = [
        { x: ends, y: ends, mode: "lines", line: { color: lineColour(), width: 1, dash: "dot" }, hoverinfo: "skip" },
        {
          x: rows.map((row) => row.predicted),
          y: rows.map((row) => Math.max(row.observed, ends[0])), // of a class without rewards the interval begins at the edge
          mode: "markers",
          marker: { color: colour, size: rows.map((row) => 5 + 9 * Math.sqrt(row.impressions / most)) },
          error_y: { type: "data", symmetric: false, array: rows.map((row) => row.high - row.observed), arrayminus: rows.map((row) => Math.max(0, row.observed - Math.max(row.low, ends[0]))), color: colour, thickness: 1, width: 0 },
          text: rows.map((row) => `predicted ${percent(row.predicted / 100)}, observed ${percent(row.observed / 100)}<br>${count(row.impressions)} impressions`),
          hoverinfo: "text",
        },
      ];
      const axis = { type: "log", tickmode: "array", ...ticks(ends), tickformatstops: [], range: ends.map(Math.log10) };
      const title = (text) => ({ text, font: { size: 12 }, standoff: 10 });
      draw(element, traces, { x: { ...axis, title: title("predicted") }, y: { ...axis, title: title("observed") }, hovermode: "closest", margin: { l: 64, b: 48 } });
    }
  }
}

/** What a model cannot learn for want of columns, in words; nothing where all features fit. */
function leftOut(model) {
  const sides = Object.entries(model.columns ?? {}).filter(([, side]) => side.left_out.length);
  if (!sides.length) return null;
  const said = sides.map(([whose, side]) => `All ${side.most} columns for ${whose} are in use (${side.used}); nothing is learned of ${side.left_out.join(", ")}${side.left_out.length >= 20 ? " and others" : ""}.`);
  return h("p", { class: "note" }, said.join(" "));
}

/** A class of predictions with its rates in per cent, as axes write them. */
const inPercent = ({ predicted, observed, low, high }) => ({ predicted: 100 * predicted, observed: 100 * observed, low: 100 * low, high: 100 * high });

/** Marks of a logarithmic axis of per cent: 1, 2, 5, 10 …, or the powers of ten where these are enough. */
function ticks([from, to]) {
  const steps = to / from > 1000 ? [1] : [1, 2, 5];
  const first = Math.floor(Math.log10(from));
  const powers = Array.from({ length: Math.ceil(Math.log10(to)) - first + 1 }, (_, j) => first + j);
  const tickvals = powers.flatMap((power) => steps.map((step) => step * 10 ** power)).filter((at) => at >= from && at <= to);
  return { tickvals, ticktext: tickvals.map((at) => `${Number(at.toPrecision(1))} %`) };
}

/** The picture in words. */
function words(model) {
  const rows = model.calibration.filter((row) => row.impressions >= 100);
  return rows.length ? rows.map((row) => `${percent(row.predicted)} predicted, ${percent(row.observed)} observed`).join("; ") : "too little is known yet";
}
