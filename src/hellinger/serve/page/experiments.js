// All experiments of the service: on one time axis, what changed when, and those that are over.

import { get } from "./api.js";
import { colours } from "./charts.js";
import { $, fill, h } from "./dom.js";
import { count, date, label, moment, part, shortDate } from "./format.js";

const MAIN = "main";
const SHOWN = 8;
const TWO_DAYS = 2 * 86400e3;

export const addressOf = (name) => (name === MAIN ? "#/" : `#/experiment/${name}`);

/** Each variant's part of a phase's traffic. */
export function sharesOf({ weights }) {
  const whole = Object.values(weights).reduce((sum, weight) => sum + weight, 0);
  return Object.fromEntries(Object.entries(weights).map(([name, weight]) => [name, weight / whole]));
}

/** A phase's shares in words. */
export const inWords = (phase) => Object.entries(sharesOf(phase)).map(([name, share]) => `${label(name)} ${part(share)}`).join(", ");

/** Which rankings an experiment takes. */
export function trafficOf({ name, placement, traffic }) {
  if (name === MAIN) return "";
  if (traffic === 1 && !placement) return "all rankings";
  return `${part(traffic)} of ${placement ? `the rankings in ${placement}` : "all rankings"}`;
}

/** What a phase has otherwise than the one before, in words. */
export function changeOf(before, phase) {
  if (!before) return `begins with ${inWords(phase)}`;
  if (phase.ended) return "ends";
  const [was, is] = [sharesOf(before), sharesOf(phase)];
  const parts = [];
  const stopped = Object.keys(was).filter((name) => !(name in is)).map(label);
  if (stopped.length) parts.push(`${stopped.join(" and ")} ${stopped.length === 1 ? "stops" : "stop"}`);
  for (const name of Object.keys(is)) {
    if (!(name in was)) parts.push(`${label(name)} joins with ${part(is[name])}`);
    else if (before.variants[name] !== phase.variants[name]) parts.push(`${label(name)} plays ${phase.variants[name]}`);
  }
  for (const name of moved(was, is)) parts.push(`${label(name)} ${part(was[name])} → ${part(is[name])}`);
  if (before.traffic !== phase.traffic) parts.push(`${part(before.traffic)} → ${part(phase.traffic)} of the traffic`);
  if (before.split !== phase.split) parts.push(phase.split === "sticky" ? "users keep their algorithm" : "each request draws its algorithm");
  if (before.control !== phase.control && phase.control) parts.push(`compared with ${label(phase.control)}`);
  if (before.guardrail !== phase.guardrail) parts.push(phase.guardrail ? `guardrail ${phase.guardrail}` : "no guardrail");
  return parts.join(", ") || "other settings";
}

/** Whose shares to name: the only one that moved against all others, else those that rose. */
function moved(was, is) {
  const both = Object.keys(is).filter((name) => name in was);
  const ratio = (name) => is[name] / was[name];
  const alike = (names) => names.every((name) => Math.abs(ratio(name) / ratio(names[0]) - 1) < 0.01);
  if (alike(both)) return both.length < Object.keys(is).length ? [] : both.filter((name) => ratio(name) > 1.005);
  const alone = both.filter((name) => alike(both.filter((other) => other !== name)));
  if (alone.length === 1) return alone;
  return both.filter((name) => is[name] - was[name] > 5e-4).toSorted((a, b) => is[b] - was[b] - is[a] + was[a]);
}

export class Experiments {
  constructor() {
    this.list = [];
    this.role = null;
    this.phases = {};
  }

  get admin() {
    return this.role === "admin";
  }

  find(name) {
    return this.list.find((each) => each.name === name);
  }

  async load() {
    const { experiments, role } = await get("/v1/experiments");
    const known = Object.fromEntries(this.list.map(({ name, phase }) => [name, phase]));
    const fresh = experiments.filter(({ name, phase }) => known[name] !== phase);
    const found = await Promise.all(fresh.map(({ name }) => get(`/v1/experiments/${encodeURIComponent(name)}/phases`)));
    fresh.forEach(({ name }, i) => (this.phases[name] = found[i].phases));
    this.list = experiments;
    this.role = role;
  }

  /** Of all variants that an experiment ever had, or of all experiments. */
  colours(name) {
    if (name === undefined) return Object.assign({}, ...this.list.map((each) => this.colours(each.name)));
    const specs = Object.assign({}, ...(this.phases[name] ?? []).map(({ variants }) => variants), this.find(name)?.variants);
    return colours(Object.entries(specs).map(([variant, policy]) => ({ variant, policy })));
  }

  /** What changed in an experiment, oldest first, and from when until when. */
  changes(name) {
    const phases = this.phases[name] ?? [];
    return phases.map((phase, i) => {
      const words = changeOf(phases[i - 1], phase);
      const why = phase.why ? `: ${phase.why}` : "";
      return { ...phase, number: i + 1, at: Date.parse(phase.since), words, hint: `${moment(phase.since)}, by ${phase.by}${why}` };
    });
  }

  // On one time axis --------------------------------------------------------------------------------

  showTimeline(chosen) {
    const played = Object.values(this.phases).flat().length;
    $("timeline").hidden = played < 2;
    if (played < 2) return;
    const running = this.list.filter(({ state }) => state === "running");
    const ended = this.list.filter(({ state }) => state === "ended").toSorted((a, b) => (a.until < b.until ? 1 : -1));
    const rows = [...running, ...ended.filter(({ name }, i) => i < SHOWN - running.length || name === chosen)];
    const to = Date.now();
    const from = Math.min(...rows.map(({ since }) => Date.parse(since)), to - 60e3);
    const place = (at) => `${((100 * (at - from)) / (to - from)).toFixed(3)}%`;
    fill($("experiments"), rows.map((each) => this.row(each, chosen, to, (at) => Math.max(0, at - from) / (to - from))));
    const tick = to - from > TWO_DAYS ? shortDate : moment;
    const ticks = [0, 1 / 3, 2 / 3].map((share) => from + share * (to - from));
    fill($("axis"), [...ticks.map((at) => h("span", { style: { left: place(at) } }, tick(at))), h("span", { class: "now" }, "now")]);
  }

  row(each, chosen, now, place) {
    const colour = this.colours(each.name);
    const changes = this.changes(each.name);
    const segments = changes
      .filter(({ ended }) => !ended)
      .map((phase, i) => {
        const start = i ? phase.at : Math.min(phase.at, Date.parse(each.since));
        const end = changes[i + 1]?.at ?? now;
        const caption = `${date(start)}: ${inWords(phase)}. ${i ? `Changed by ${phase.by}` : `Begun by ${phase.by}`}${phase.why ? `: ${phase.why}` : ""}`;
        const parts = Object.entries(sharesOf(phase)).map(([name, share]) => h("span", { style: { height: `${100 * share}%`, background: colour[name] } }));
        return { caption, element: h("span", { class: "segment", title: caption, style: { left: `${100 * place(start)}%`, width: `${100 * (place(end) - place(start))}%` } }, parts) };
      });
    const about = [trafficOf(each), each.state === "ended" ? `ended ${date(each.until)}` : ""].filter(Boolean).join(", ");
    return h(
      "li",
      { class: each.state },
      h("p", {}, h("a", { href: addressOf(each.name), "data-key": each.name, "aria-current": each.name === chosen ? "true" : undefined }, each.name), about ? h("span", { class: "soft" }, about) : null),
      h("div", { class: "track", role: "img", "aria-label": segments.map(({ caption }) => caption).join("; ") }, segments.map(({ element }) => element)),
    );
  }

  // Who changed what and when -----------------------------------------------------------------------

  showChanges(name) {
    const changes = this.changes(name);
    const several = changes.length > 1;
    $("changes").hidden = !several && !this.admin;
    $("phases").parentElement.hidden = !several;
    if (!several) return;
    fill(
      $("phases").tBodies[0],
      changes.toReversed().map((phase) =>
        h(
          "tr",
          { role: "row" },
          h("th", { scope: "row", role: "rowheader", class: "num" }, String(phase.number)),
          cell("When", moment(phase.since), "when"),
          cell("What", h("div", {}, phase.words, phase.ended || phase.number === 1 ? null : h("span", { class: "spec" }, inWords(phase)))),
          cell("By", phase.by),
          cell("Why", phase.why || "–"),
          cell("Rankings", phase.ended ? "–" : count(Object.values(phase.requests).reduce((a, b) => a + b, 0)), "num"),
        ),
      ),
    );
  }

  showPast() {
    const past = this.list.filter(({ state }) => state === "ended").toSorted((a, b) => (a.until < b.until ? 1 : -1));
    $("past").hidden = !past.length;
    fill(
      $("past-table").tBodies[0],
      past.map((each) => {
        const last = this.phases[each.name].at(-1);
        return h(
          "tr",
          { role: "row" },
          h("th", { scope: "row", role: "rowheader" }, h("a", { href: addressOf(each.name), "data-key": `past-${each.name}` }, each.name)),
          cell("Time", `${date(each.since)} to ${date(each.until)}`),
          cell("Algorithms", Object.keys(each.variants).map(label).join(", ")),
          cell("Rankings", count(each.requests), "num"),
          cell("Ended by", last.by),
          cell("Why", last.why || "–"),
        );
      }),
    );
  }
}

function cell(name, value, kind = "") {
  return h("td", { role: "cell", class: kind || undefined, "data-label": name }, value);
}
