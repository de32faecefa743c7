// The experiment: who leads, by how much, and whether that is certain.

import { get } from "./api.js";
import { Best } from "./best.js";
import { draw, HOVER_DAY, HOVER_TIME, local, marks } from "./charts.js";
import { $, choice, fill, h, interval, state, text } from "./dom.js";
import { inWords, trafficOf } from "./experiments.js";
import { chance, change, count, date, hours, known, label, moment, part, percent, plural } from "./format.js";
import { Groups } from "./groups.js";
import { Models } from "./models.js";
import { SelfCheck } from "./selfcheck.js";
import { LENGTH, Series } from "./series.js";
import { showShadows } from "./shadows.js";

const HOUR = LENGTH.hour;
const RANGES = {
  hours: { label: "3 hours", span: 3 * HOUR, curve: "minute", steps: ["minute"] },
  days: { label: "2 days", span: 48 * HOUR, curve: "hour", steps: ["hour", "minute"] },
  weeks: { label: "2 weeks", span: 14 * 24 * HOUR, curve: "hour", steps: ["day", "hour"] },
  all: { label: "All", span: Infinity, curve: "hour", steps: ["day", "hour"] },
};
const CALM = {
  minute: { span: HOUR, words: "the last hour" },
  hour: { span: 24 * HOUR, words: "the last 24 hours" },
  day: { span: 7 * 24 * HOUR, words: "the last 7 days" },
};
const MANY = 2500;
const SPOKEN_EVERY = 60e3;

export class Overview {
  constructor(app) {
    this.app = app;
    this.name = "main";
    this.series = Object.fromEntries(["minute", "hour", "day"].map((name) => [name, new Series(name)]));
    this.models = new Models(this);
    this.groups = new Groups(this);
    this.best = new Best(this);
    this.selfCheck = new SelfCheck(this);
    this.range = null;
    this.chosen = false;
    this.step = null;
    this.control = null;
    this.readout = null;
    this.spokenAt = 0;
    choice($("range"), Object.entries(RANGES).map(([name, { label }]) => [name, label]), "all", (name) => {
      this.chosen = true;
      this.choose(name);
    });
    choice($("step"), [["minute", "Minute"], ["hour", "Hour"], ["day", "Day"]], "day", (name) => {
      this.step = name;
      this.drawRate();
    });
    $("control").addEventListener("change", (event) => {
      this.control = event.target.value;
      this.follow();
    });
    $("curve-table").closest("details").addEventListener("toggle", () => this.tabulate());
  }

  follow() {
    this.app.follower.follow({ experiment: this.name === "main" ? null : this.name, control: this.control });
  }

  /** Show this experiment from now on. */
  async open(name) {
    Object.assign(this, { name, readout: null, control: null, range: null, chosen: false, spokenAt: 0 });
    $("overview-body").hidden = true;
    for (const id of ["crumb", "ratio", "guardrail-alarm"]) $(id).hidden = true;
    for (const id of ["sentence", "more", "next", "facts"]) text($(id), "");
    await this.load();
    this.follow();
  }

  async load() {
    const { name } = this;
    if (!this.readout) state($("overview-state"), "loading", "Loading the experiment…");
    const readout = await get(`/v1/experiments/${encodeURIComponent(name)}`, { control: this.control });
    if (name !== this.name) return;
    this.show(readout);
    this.best.load(name).catch(() => {}); // nothing waits for it: very many items take a second
    await Promise.all([...Object.values(this.series).map((each) => each.load(name)), this.models.load(name), this.groups.load(name), this.selfCheck.load(name)]);
    if (name !== this.name) return;
    this.chooseByAge();
    this.drawCharts();
  }

  /** Until a range is chosen by hand: minutes while the experiment is young, then everything. */
  chooseByAge() {
    if (this.chosen) return;
    const young = this.series.hour.span <= 2 * HOUR && this.series.minute.steps.length > 0;
    const name = young ? "hours" : "all";
    if (name !== this.range) this.choose(name);
  }

  /** A message has come. */
  take({ experiment, totals, steps }) {
    // of another experiment, or from before it was changed
    if (experiment.name !== this.name || !this.readout || experiment.phase < this.readout.phase) return;
    const fresh = Object.values(this.series).map((each) => each.take(steps[each.resolution]));
    if (this.control && this.control !== experiment.control) return;
    // intervals are a moment older than the counts beside them
    for (const row of experiment.variants) [row.requests, row.impressions, row.reward] = totals[row.variant] ?? [0, 0, 0];
    this.show(experiment);
    if (!fresh.some(Boolean)) return;
    this.chooseByAge();
    if (this.visible) this.drawCharts();
  }

  get visible() {
    return !$("overview-body").hidden && !$("overview").hidden;
  }

  // What is known now -------------------------------------------------------------------------------

  show(readout) {
    this.readout = readout;
    this.colour = this.app.experiments.colours(readout.name);
    this.rows = [...readout.variants, ...readout.former];
    const impressions = this.rows.reduce((sum, row) => sum + row.impressions, 0);
    const sentence = impressions ? readout.sentence : "No traffic yet.";
    // the first sentence is the headline; "2.5 %" is no end of one
    const [first, more] = sentence.split(/(?<=\.)\s+(?=\p{Lu})(.*)/su);
    text($("sentence"), unbroken(first, this.rows));
    text($("more"), unbroken(more ?? "", this.rows));
    text($("next"), impressions ? unbroken(readout.next, this.rows) : "");
    this.speak(sentence);
    this.crumb(readout);
    this.facts(readout, impressions);
    this.alarms(readout);
    $("overview-body").hidden = !impressions;
    if (impressions) state($("overview-state"), null);
    else this.showEmpty(readout);
    this.board(readout);
    this.guardrail(readout);
    const { admin } = this.app.experiments;
    showShadows(readout, admin && readout.state === "running" ? (shadow) => this.app.change.show(readout.name, shadow) : null);
    this.share(readout);
    this.legend();
  }

  crumb(readout) {
    $("crumb").hidden = readout.name === "main";
    text($("crumb-name"), readout.name);
    text($("crumb-state"), readout.state === "ended" ? `ended ${date(readout.until)}` : "running");
    $("crumb-state").dataset.state = readout.state;
  }

  alarms(readout) {
    const off = readout.sample_ratio?.alarm ? readout.sample_ratio : null;
    $("ratio").hidden = !off;
    if (off) {
      const p = off.p_value < 0.0001 ? "< 0.0001" : `= ${off.p_value.toPrecision(2)}`;
      const got = `${label(off.worst)} got ${part(off.share)} of it where ${part(off.intended)} was intended (p ${p})`;
      text($("ratio"), `The split of traffic is not what it should be${this.phaseInWords(off.phase)}: ${got}. Find out why before you trust the comparison.`);
    }
    const { guardrail } = readout;
    $("guardrail-alarm").hidden = !guardrail?.alarm;
    if (guardrail?.alarm) {
      const worse = guardrail.variants.filter(({ alarm }) => alarm).map((row) => `${label(row.variant)} by at least ${change(row.lift_low)}`);
      text($("guardrail-alarm"), `Guardrail: ${guardrail.kind} is more frequent than with ${label(readout.control)}, with ${worse.join(", with ")}. Chance does not explain it.`);
    }
  }

  /** Which phase, by its place in the log. */
  phaseInWords(seq) {
    const changes = this.app.experiments.changes(this.name);
    const i = changes.findIndex((phase) => phase.seq === seq);
    if (i < 0 || changes.length < 2) return seq === 0 ? ", in rankings from before the first phase" : "";
    const until = changes[i + 1] ? ` to ${moment(changes[i + 1].since)}` : "";
    return `, in phase ${i + 1} (${until ? "" : "since "}${moment(changes[i].since)}${until}, intended: ${inWords(changes[i])})`;
  }

  speak(sentence) {
    if (Date.now() - this.spokenAt < SPOKEN_EVERY) return;
    this.spokenAt = Date.now();
    text($("spoken"), sentence);
  }

  facts(readout, impressions) {
    const parts = [
      plural(readout.variants.length, "algorithm"),
      plural(readout.items, "item"),
      plural(impressions, "impression"),
    ];
    if (readout.since) parts.push(readout.until ? `${date(readout.since)} to ${date(readout.until)}` : `since ${date(readout.since)}`);
    if (readout.name !== "main") parts.push(trafficOf(readout));
    if (readout.former.length) parts.push(`${count(readout.former.length)} stopped`);
    if (readout.variants.length > 1) parts.push(readout.split === "sticky" ? "each user stays with one algorithm" : "each request draws its algorithm");
    if (readout.learning === "shared" && readout.variants.length > 1) parts.push("all learn from all");
    text($("facts"), parts.join(" · "));
  }

  showEmpty(readout) {
    const where = location.origin;
    const steps = readout.items
      ? [h("p", {}, `${plural(readout.items, "item")} wait to be shown. Ask for a ranking:`), code(`curl ${where}/v1/rank -H 'Content-Type: application/json' -d '{"k": 3}'`)]
      : [
          h("p", {}, "Add items, then ask for a ranking:"),
          code(`curl ${where}/v1/items -H 'Content-Type: application/json' -d '{"items": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}'`),
          code(`curl ${where}/v1/rank -H 'Content-Type: application/json' -d '{"k": 3}'`),
        ];
    state($("overview-state"), "empty", "The figure draws itself with the first ranking.", ...steps);
  }

  // Leaderboard -------------------------------------------------------------------------------------

  board(readout) {
    const rows = readout.variants;
    const { control } = readout;
    text($("settled"), settled(readout));
    const single = rows.length === 1;
    text($("board-title"), single ? "Result" : "Leaderboard");
    for (const element of [$("control").parentElement, $("share").parentElement, ...$("board").querySelectorAll("thead .versus")]) element.hidden = single;
    const select = $("control");
    if ([...select.options].map(({ value }) => value).join() !== rows.map(({ variant }) => variant).join() || select.value !== control) {
      select.replaceChildren(...readout.variants.map(({ variant }) => h("option", { value: variant, selected: variant === control }, label(variant))));
    }
    const rates = scale(rows, "low", "high", "rate");
    const lifts = scale(rows.filter((row) => row.variant !== control), "lift_low", "lift_high", "lift", 0);
    fill(
      $("board").tBodies[0],
      rows.map((row) => {
        const colour = this.colour[row.variant];
        const own = row.variant === control;
        const versus = () => [
          cell("Lift", own ? "control" : change(row.lift), own ? "soft" : "strong"),
          h("td", { role: "cell", "data-label": "Its interval", class: own ? "band nothing" : "band" }, ...(own ? [] : liftBand(row, lifts, colour))),
          cell("Best", chance(row.probability_best)),
        ];
        return h(
          "tr",
          { role: "row" },
          h(
            "th",
            { scope: "row", role: "rowheader" },
            h("span", { class: "name" }, h("span", { class: "swatch", style: { background: colour } }), label(row.variant)),
            row.policy && row.policy !== label(row.variant) ? h("span", { class: "spec" }, row.policy) : null,
          ),
          cell("Impressions", count(row.impressions)),
          cell("Reward", count(row.reward)),
          cell("Rate", percent(row.rate), "strong"),
          h("td", { role: "cell", "data-label": "95 % interval", class: "band" }, ...(known(row.rate) ? [interval(row.low, row.high, row.rate, rates, { colour }), ends(percent(row.low), percent(row.high))] : ["–"])),
          ...(single ? [] : versus()),
        );
      }),
      readout.former.map((row) =>
        h(
          "tr",
          { role: "row", class: "former" },
          h("th", { scope: "row", role: "rowheader" }, h("span", { class: "name" }, h("span", { class: "swatch", style: { background: this.colour[row.variant] } }), label(row.variant)), h("span", { class: "spec" }, "stopped")),
          cell("Impressions", count(row.impressions)),
          cell("Reward", count(row.reward)),
          h("td", { role: "cell", class: "nothing", colspan: single ? 2 : 5 }),
        ),
      ),
    );
    const note = readout.verdict === "early" ? "There is too little data yet for a verdict. " : "";
    text(
      $("board-note"),
      single
        ? "Rate: reward per impression. Its interval stays valid however often you look."
        : `${note}Lift: how much higher the rate is than that of ${label(control)}. Best: the probability of having the highest rate. Intervals stay valid however often you look.`,
    );
  }

  guardrail(readout) {
    const { guardrail, control } = readout;
    $("guardrail").hidden = !guardrail;
    if (!guardrail) return;
    text($("guardrail-title"), `Guardrail: ${guardrail.kind}`);
    text($("guardrail-note"), `Feedback of this kind should not become more frequent than with ${label(control)}. An alarm is raised once chance does not explain that it has.`);
    const rows = guardrail.variants;
    const others = rows.filter((row) => row.variant !== control);
    const rates = scale(rows, "low", "high", "rate");
    const lifts = scale(others, "lift_low", "lift_high", "lift", 0);
    fill(
      $("guardrail-table").tBodies[0],
      rows.map((row) => {
        const colour = this.colour[row.variant];
        const own = row.variant === control;
        return h(
          "tr",
          { role: "row" },
          h("th", { scope: "row", role: "rowheader" }, h("span", { class: "name" }, h("span", { class: "swatch", style: { background: colour } }), label(row.variant))),
          cell("Count", count(row.count)),
          cell("Rate", percent(row.rate), "strong"),
          h("td", { role: "cell", "data-label": "Its interval", class: "band" }, ...(known(row.rate) ? [interval(row.low, row.high, row.rate, rates, { colour }), ends(percent(row.low), percent(row.high))] : ["–"])),
          cell("Lift", own ? "control" : change(row.lift), own ? "soft" : "strong"),
          h("td", { role: "cell", "data-label": "Its interval", class: own ? "band nothing" : "band" }, ...(own ? [] : liftBand(row, lifts, colour))),
          cell("", own ? "" : row.alarm ? "alarm" : "no alarm", row.alarm ? "alarm" : own ? "nothing" : "soft"),
        );
      }),
    );
  }

  share(readout) {
    const whole = this.rows.reduce((sum, row) => sum + row.requests, 0);
    const shares = this.rows.map((row) => [row, row.requests / (whole || 1)]);
    fill(
      $("share"),
      h("div", { class: "bar-share", "aria-hidden": "true" }, shares.map(([row, share]) => h("span", { style: { width: `${100 * share}%`, background: this.colour[row.variant] } }))),
      h(
        "ul",
        { class: "shares" },
        shares.map(([row, share]) =>
          h(
            "li",
            {},
            h("span", { class: "name" }, h("span", { class: "swatch", style: { background: this.colour[row.variant] } }), label(row.variant)),
            h("span", { class: "value" }, part(share)),
            h("span", { class: "soft" }, known(row.intended) ? `${part(row.intended)} intended` : "stopped"),
          ),
        ),
      ),
      h("p", { class: "note" }, ratio(readout, whole)),
    );
  }

  legend() {
    fill(
      $("legend"),
      this.rows.map((row) =>
        h("li", {}, h("span", { class: "swatch", style: { background: this.colour[row.variant] } }), label(row.variant), h("strong", {}, count(row.reward))),
      ),
    );
  }

  // Charts ------------------------------------------------------------------------------------------

  choose(name) {
    this.range = name;
    $("range").querySelector(`[value=${name}]`).checked = true;
    const { steps } = RANGES[name];
    this.step = steps[0];
    for (const input of $("step").querySelectorAll("input")) {
      input.disabled = !steps.includes(input.value);
      input.checked = input.value === this.step;
    }
    this.drawCharts();
  }

  /** The moment that ranges reach back from. */
  get end() {
    return this.readout.until ? Date.parse(this.readout.until) : Date.now();
  }

  /** Where phases after the first began, for a chart of this time. */
  marks(element, times) {
    return marks(element, this.app.experiments.changes(this.name).slice(1), [times[0] ?? 0, times.at(-1) ?? 0]);
  }

  drawCharts() {
    if (!this.readout || !this.range) return;
    this.drawCurve();
    this.drawRate();
    this.models.draw();
  }

  drawCurve() {
    const range = RANGES[this.range];
    let series = this.series[range.curve];
    if (series.steps.length - series.from(range.span, this.end) > MANY) series = this.series.day;
    const from = series.from(range.span, this.end);
    const names = this.names(series);
    const when = series.steps.slice(from);
    const before = (column) => (from ? column.cumulative[from - 1] : 0);
    // the reward of a step is there at its end: the curve begins with what had been gathered before
    const last = Math.min(Date.now(), (when.at(-1) ?? 0) + LENGTH[series.resolution]);
    const times = when.length ? [...when, last] : [];
    const x = times.map(local);
    const traces = names.map((name) => ({
      type: "scatter",
      mode: "lines",
      name: label(name),
      x,
      y: when.length ? [before(series.variants[name]), ...series.variants[name].cumulative.slice(from)] : [],
      line: { color: this.colour[name] ?? "#888", width: 2.5 },
      hovertemplate: "%{y:,.0f}",
    }));
    const rangemode = Number.isFinite(range.span) && from > 0 ? "normal" : "tozero";
    const { range: shown, ...marked } = this.marks($("curve"), times);
    draw($("curve"), traces, { ...marked, x: { ...shown, hoverformat: HOVER_TIME, type: "date" }, y: { rangemode, tickformat: "~s" } });
    const ends = names.map((name) => `${label(name)} ${count(series.variants[name].cumulative.at(-1) ?? 0)}`).join(", ");
    $("curve").setAttribute("aria-label", `Line chart of cumulative reward by algorithm, ${range.label.toLowerCase()}. Reward so far: ${ends}.`);
    this.tabulate();
  }

  drawRate() {
    const series = this.series[this.step];
    const from = series.from(RANGES[this.range].span, this.end);
    const names = this.names(series);
    const times = series.steps.slice(from);
    const x = series.labels(from);
    const few = x.length <= 40;
    const { span, words } = CALM[this.step];
    const calm = times.length > span / LENGTH[this.step];
    const raw = names.map((name) => {
      const { impressions, reward } = series.variants[name];
      return {
        type: "scatter",
        mode: few && !calm ? "lines+markers" : "lines",
        name: label(name),
        x,
        y: impressions.slice(from).map((n, i) => (n ? (100 * reward[from + i]) / n : null)),
        line: { color: this.colour[name] ?? "#888", width: calm ? 1 : 2 },
        opacity: calm ? 0.35 : 1,
        marker: { size: 5 },
        ...(calm ? { hoverinfo: "skip" } : { hovertemplate: "%{y:.2f} %" }),
      };
    });
    const smooth = names.map((name, i) => ({
      type: "scatter",
      mode: "lines",
      name: label(name),
      x,
      y: series.moving(name, from, span).map((rate) => rate && 100 * rate),
      customdata: raw[i].y.map((rate) => percent(rate && rate / 100)),
      line: { color: this.colour[name] ?? "#888", width: 2.5 },
      hovertemplate: `%{y:.2f} %, this ${this.step} %{customdata}`,
    }));
    text($("rate-note"), calm ? `Bold: over ${words}. Pale: each ${this.step}.` : "");
    const only = times.length === 1 ? times[0] : null;
    const around = only === null ? {} : { range: [only - LENGTH[this.step], only + LENGTH[this.step]].map(local) };
    const { range: shown, ...marked } = this.marks($("rate"), times.length ? [...times, Math.min(this.end, times.at(-1) + LENGTH[this.step])] : []);
    draw($("rate"), calm ? [...raw, ...smooth] : raw, { ...marked, x: { ...shown, ...around, hoverformat: this.step === "day" ? HOVER_DAY : HOVER_TIME, type: "date" }, y: { ticksuffix: " %" } });
    const last = raw.map((trace) => `${trace.name} ${percent(trace.y.findLast(known) / 100)}`).join(", ");
    $("rate").setAttribute("aria-label", `Line chart of reward per impression, by ${this.step}. Last ${this.step}: ${last}.`);
  }

  names(series) {
    return this.rows.map(({ variant }) => variant).filter((name) => series.variants[name]);
  }

  /** The same as text, a row for each day (or the steps of a short range), newest first. */
  tabulate() {
    const box = $("curve-table");
    if (!box.closest("details").open || !this.range) return;
    const series = this.series[this.step];
    const names = this.names(series);
    const from = series.from(RANGES[this.range].span, this.end);
    const places = series.steps.map((_, i) => i).slice(from).slice(-60).reverse();
    const when = (step) => (series.resolution === "day" ? date(step) : moment(step));
    fill(
      box,
      h(
        "table",
        {},
        h("caption", { class: "hidden" }, `Cumulative reward and rate by ${series.resolution}, newest first`),
        h(
          "thead",
          {},
          h("tr", {}, h("th", { scope: "col", rowspan: 2 }, series.resolution[0].toUpperCase() + series.resolution.slice(1)), names.map((name) => h("th", { scope: "colgroup", colspan: 2, class: "num" }, label(name)))),
          h("tr", {}, names.map(() => [h("th", { scope: "col", class: "num" }, "Reward so far"), h("th", { scope: "col", class: "num" }, "Rate")])),
        ),
        h(
          "tbody",
          {},
          places.map((i) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, when(series.steps[i])),
              names.map((name) => {
                const { impressions, reward, cumulative } = series.variants[name];
                return [cell("", count(cumulative[i])), cell("", percent(impressions[i] ? reward[i] / impressions[i] : null))];
              }),
            ),
          ),
        ),
      ),
    );
  }
}

/** Keep a figure and its interval on one line, and an algorithm's name, which the sentence may write in capitals. */
function unbroken(sentence, variants) {
  const whole = (part) => part.replaceAll(" ", "\u00a0").replaceAll("-", "-\u2060");
  const names = variants.map(({ variant }) => label(variant).replace(/[^\w\s]/g, "\\$&")).sort((a, b) => b.length - a.length);
  const spelled = sentence.replace(new RegExp(`(?<![\\w-])(${names.join("|")})(?![\\w-])`, "gi"), whole);
  return spelled.replaceAll(" %", "\u00a0%").replaceAll("–", "\u2060–\u2060").replaceAll(" (", "\u00a0(");
}

function cell(label, value, kind = "") {
  return h("td", { role: "cell", class: `num ${kind}`.trim(), "data-label": label }, value);
}

function ends(low, high) {
  return h("span", { class: "ends" }, `${low} to ${high}`);
}

function liftBand(row, lifts, colour) {
  if (!known(row.lift_low)) return ["–"];
  const range = known(row.lift_high) ? ends(change(row.lift_low), change(row.lift_high)) : h("span", { class: "ends" }, `at least ${change(row.lift_low)}`);
  return [interval(row.lift_low, row.lift_high ?? Infinity, row.lift, lifts, { colour, zero: 0 }), range];
}

/** Which rankings the rates are of. */
function settled({ variants, open_requests: open, attribution_hours: window }) {
  const final = variants.reduce((sum, row) => sum + row.settled_requests, 0);
  if (!open) return `Rates are of ${final === 1 ? "one ranking" : `all ${plural(final, "ranking")}`}: none can still be rewarded.`;
  if (!final) return `Rates come once rankings are older than ${hours(window)}; until then each may still be rewarded.`;
  const may = open === 1 ? "1 newer one may" : `${count(open)} newer ones may`;
  return `Rates are of the ${plural(final, "ranking")} older than ${hours(window)}; ${may} still be rewarded.`;
}

function code(line) {
  return h("pre", {}, h("code", {}, line));
}

function ratio(readout, whole) {
  if (!whole) return "";
  const p = readout.sample_ratio?.p_value;
  if (!known(p)) return `${plural(whole, "request")} so far.`;
  return readout.sample_ratio.alarm ? "The shares are further from what was asked for than chance explains." : `${plural(whole, "request")}; the shares are as chance would have them (p = ${p.toFixed(2)}).`;
}

/** Ends of a scale that shows every interval, but is not stretched by one of a variant with hardly any data. */
function scale(rows, low, high, middle, zero) {
  const good = rows.filter((row) => known(row[low]) && known(row[high]) && known(row[middle]));
  if (!good.length) return [0, 1];
  const middles = good.map((row) => row[middle]).filter(known);
  const spread = Math.max(...middles) - Math.min(...middles) || Math.abs(middles[0]) || 0.01;
  let from = Math.max(Math.min(...good.map((row) => row[low])), Math.min(...middles) - 3 * spread);
  let to = Math.min(Math.max(...good.map((row) => row[high])), Math.max(...middles) + 3 * spread);
  if (zero !== undefined) [from, to] = [Math.min(from, zero), Math.max(to, zero)];
  const room = 0.06 * (to - from || 0.01);
  return [from - room, to + room];
}
