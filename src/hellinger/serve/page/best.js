// Which items are the best, and how sure that is.

import { get } from "./api.js";
import { $, fill, h, interval, text } from "./dom.js";
import { count, percent } from "./format.js";

const REFRESH = 15000;

export class Best {
  constructor(overview) {
    this.overview = overview;
    this.found = null;
    $("best-wanted").addEventListener("change", () => this.load(overview.name).catch(() => {}));
    setInterval(() => {
      if (!document.hidden && overview.visible && this.found) this.load(overview.name).catch(() => {});
    }, REFRESH);
  }

  async load(name) {
    const wanted = $("best-wanted").value;
    const found = await get(`/v1/experiments/${encodeURIComponent(name)}/best`, { k: wanted });
    if (name !== this.overview.name || wanted !== $("best-wanted").value) return;
    this.found = found;
    this.show();
  }

  show() {
    const { items, sentence, notes, best } = this.found;
    $("best").hidden = this.found.state !== "refused" && items < 2;
    text($("best-sentence"), sentence);
    text($("best-note"), notes.join(" "));
    $("best-which").hidden = !best.length;
    const most = (values) => Math.max(1e-6, ...values);
    const scale = [0, Math.min(most(best.map(({ high }) => high)), 2 * most(best.map(({ rate }) => rate ?? 0)))];
    fill($("best-rows"), best.map((row) => this.one(row, scale)));
  }

  one({ id, certain, rate, low, high, impressions }, scale) {
    const cell = (name, value, kind) => h("td", { role: "cell", class: kind, "data-label": name }, value);
    return h(
      "tr",
      { role: "row" },
      h("th", { scope: "row", role: "rowheader" }, id),
      cell("Sure", h("span", { class: "badge" }, certain ? "Certain" : "Open")),
      cell("Rate", percent(rate), "num strong"),
      h("td", { role: "cell", class: "band", "data-label": "Bounds" }, interval(low, high, rate, scale, { colour: "var(--ink)" }), h("span", { class: "ends" }, `${percent(low)} to ${percent(high)}`)),
      cell("Impressions", count(impressions), "num"),
    );
  }
}
