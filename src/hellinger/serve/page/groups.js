// What variants have learned of groups: how much they tell, and which stand out.

import { get } from "./api.js";
import { $, fill, h, interval } from "./dom.js";
import { count, label, part, percent } from "./format.js";

const REFRESH = 15000;
const SHOWN = 10;
const FAINTEST = 0.3;

export class Groups {
  constructor(overview) {
    this.overview = overview;
    this.variants = [];
    setInterval(() => {
      if (!document.hidden && overview.visible && this.variants.length) this.load(overview.name).catch(() => {});
    }, REFRESH);
  }

  async load(name) {
    const { variants } = await get(`/v1/experiments/${encodeURIComponent(name)}/groups`);
    if (name !== this.overview.name) return;
    this.variants = variants;
    this.show();
  }

  show() {
    $("groups").hidden = !this.variants.length;
    fill($("groups-body"), this.variants.map((variant) => this.one(variant)));
  }

  one({ variant, rate, sentence, levels, groups }) {
    const colour = this.overview.colour[variant];
    const shown = groups.slice(0, SHOWN);
    const log = Math.log2;
    const scale = [Math.min(-1, ...shown.map(({ effect }) => log(effect) - 1)), Math.max(1, ...shown.map(({ high }) => log(high) + 0.2))];
    const row = ({ group, tags, effect, low, high, items, impressions }) => {
      const name = group.length ? group.join(" › ") : tags.join(", ");
      return h(
        "tr",
        { role: "row" },
        h("th", { scope: "row", role: "rowheader" }, name),
        cell("Rate", times(effect), "num strong"),
        h("td", { role: "cell", class: "band", "data-label": "95 % interval" }, interval(log(Math.max(low, 1e-9)), log(high), log(effect), scale, { colour, zero: 0 }), h("span", { class: "ends" }, `${times(low)} to ${times(high)}`)),
        cell("Impressions", count(Math.round(impressions)), "num"),
        cell("Items", count(items), "num"),
      );
    };
    const columns = [["Group", ""], ["Rate", "num"], ["95 % interval", ""], ["Impressions", "num"], ["Items", "num"]];
    return h(
      "div",
      { class: "model", "data-groups": variant },
      h("h3", {}, h("span", { class: "name" }, h("span", { class: "swatch", style: { background: colour } }), label(variant))),
      h("p", { class: "note" }, sentence),
      levels.length ? sharesOf(levels, colour) : null,
      shown.length
        ? h(
            "div",
            { class: "scroll", tabindex: "0", role: "region", "aria-label": `Groups by ${label(variant)}` },
            h(
              "table",
              { class: "board", role: "table" },
              h("caption", { class: "hidden" }, `Groups that stand out most, as times the rate of ${percent(rate)}`),
              h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map(([words, kind]) => h("th", { role: "columnheader", scope: "col", class: kind || undefined }, words)))),
              h("tbody", { role: "rowgroup" }, shown.map(row)),
            ),
          )
        : null,
      shown.length ? h("p", { class: "note" }, `Rate: times that of an item of which nothing is known, ${percent(rate)}.`) : null,
    );
  }
}

/** The variance of click rates as a bar: what lies between the groups of each level, and between items. */
function sharesOf(levels, colour) {
  const names = levels.map(({ groups }, i) => `between ${count(groups)} ${i ? "groups within these" : "groups"}`);
  const rest = 1 - levels.reduce((sum, { share }) => sum + share, 0);
  const parts = [...levels.map(({ share }, i) => [share, names[i], 1 - ((1 - FAINTEST) * i) / levels.length]), [rest, "between items of one", FAINTEST]].filter(([share]) => share >= 0.005);
  const look = (opacity) => ({ background: colour, opacity: opacity.toFixed(2) });
  return h(
    "div",
    { class: "variance" },
    h("div", { class: "bar-share", "aria-hidden": "true" }, parts.map(([share, , opacity]) => h("span", { style: { width: `${100 * share}%`, ...look(opacity) } }))),
    h("ul", { class: "legend" }, parts.map(([share, words, opacity]) => h("li", {}, h("span", { class: "swatch", style: look(opacity) }), words, h("strong", {}, part(share))))),
  );
}

const times = (x) => `× ${x >= 100 ? count(Math.round(x)) : x >= 10 ? x.toFixed(1) : x.toFixed(2)}`;

function cell(name, value, kind) {
  return h("td", { role: "cell", class: kind, "data-label": name }, value);
}
