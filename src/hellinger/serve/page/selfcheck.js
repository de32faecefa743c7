// Each algorithm estimated from the others' traffic, and what it earned itself. Made on demand, by another process.

import { get } from "./api.js";
import { $, fill, h, text } from "./dom.js";
import { count, label, moment } from "./format.js";

const AGAIN = 1000;
const WHY = "Each algorithm can be estimated from the others' traffic, and compared with what it earned itself. Where the two agree, estimates from this log can be trusted.";

export class SelfCheck {
  constructor(overview) {
    this.overview = overview;
    this.found = null;
    $("selfcheck-now").addEventListener("click", () => this.load(overview.name, true));
  }

  async load(name, begin = false) {
    clearTimeout(this.waiting);
    try {
      const found = await get(`/v1/experiments/${encodeURIComponent(name)}/self-check`, { begin });
      if (name !== this.overview.name) return;
      this.found = found;
      if (found.state === "running") this.waiting = setTimeout(() => this.load(name).catch(() => {}), AGAIN);
    } catch (error) {
      if (!begin) throw error;
      this.found = { state: "failed", reason: error.message, variants: [] };
    }
    this.show();
  }

  show() {
    if (!this.found) return;
    const { state, variants } = this.found;
    $("selfcheck").hidden = (this.overview.readout?.variants.length ?? 0) < 2;
    $("selfcheck-now").disabled = state === "running";
    fill($("selfcheck-list"), variants.map((each) => this.one(each)));
    text($("selfcheck-note"), this.note());
  }

  one({ variant, agrees, sentence }) {
    const [word, kind] = agrees === null ? ["No answer", "badge"] : agrees ? ["Agree", "badge"] : ["Differ", "badge alarm"];
    const words = sentence.startsWith(`${variant}: `) ? sentence.slice(variant.length + 2) : sentence.slice(variant.length + 1);
    return h(
      "li",
      { "data-check": variant },
      h("span", { class: "name" }, h("span", { class: "swatch", style: { background: this.overview.colour[variant] } }), label(variant)),
      h("span", { class: kind }, word),
      " ",
      words,
    );
  }

  note() {
    const { state, reason, at, since, rankings, chances, variants } = this.found;
    if (state === "running") return "The newest rankings are gone through again…";
    if (state === "failed") return reason;
    if (state === "none") return WHY;
    if (!variants.length) return `Checked ${moment(at)}: these algorithms had no rankings to compare.`;
    return `Checked ${moment(at)}: ${count(rankings)} rankings since ${moment(since)}. ${chances}. Rates are of the places that others show too.`;
  }
}
