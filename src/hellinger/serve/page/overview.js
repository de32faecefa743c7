// The experiment: who leads, by how much, and whether that is certain.

import { get } from "./api.js";
import { colours, draw, HOVER_DAY, HOVER_TIME, local } from "./charts.js";
import { $, choice, fill, h, interval, state, text } from "./dom.js";
import { chance, change, count, date, known, moment, percent, plural } from "./format.js";
import { LENGTH, Series } from "./series.js";

const HOUR = LENGTH.hour;
const RANGES = {
  hours: { label: "3 hours", span: 3 * HOUR, curve: "minute", steps: ["minute"] },
  days: { label: "2 days", span: 48 * HOUR, curve: "hour", steps: ["hour", "minute"] },
  weeks: { label: "2 weeks", span: 14 * 24 * HOUR, curve: "hour", steps: ["day", "hour"] },
  all: { label: "All", span: Infinity, curve: "hour", steps: ["day", "hour"] },
};
const MANY = 2500;
const SPOKEN_EVERY = 60e3;

export class Overview {
  constructor(app) {
    this.app = app;
    this.series = Object.fromEntries(["minute", "hour", "day"].map((name) => [name, new Series(name)]));
    this.range = null;
    this.chosen = false;
    this.step = null;
    this.control = null;
    this.told = null;
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
      this.app.follower.follow(this.control);
    });
    $("curve-table").closest("details").addEventListener("toggle", () => this.tabulate());
  }

  async load() {
    if (!this.told) state($("overview-state"), "loading", "Loading the experiment…");
    this.show(await get("/v1/experiments/main", { control: this.control }));
    await Promise.all(Object.values(this.series).map((each) => each.load()));
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
    const fresh = Object.values(this.series).map((each) => each.take(steps[each.resolution]));
    if (this.control && this.control !== experiment.control) return;
    // intervals are a moment older than the counts beside them
    for (const row of experiment.variants) {
      [row.requests, row.impressions, row.reward] = totals[row.variant] ?? [0, 0, 0];
      row.rate = row.impressions ? row.reward / row.impressions : null;
    }
    this.show(experiment);
    if (!fresh.some(Boolean)) return;
    this.chooseByAge();
    if (this.visible) this.drawCharts();
  }

  get visible() {
    return !$("overview-body").hidden && !$("overview").hidden;
  }

  // What is known now -------------------------------------------------------------------------------

  show(told) {
    told.variants.sort((a, b) => (b.rate ?? -1) - (a.rate ?? -1));
    this.told = told;
    this.colour = colours(told.variants);
    const impressions = told.variants.reduce((sum, row) => sum + row.impressions, 0);
    const sentence = impressions ? told.sentence : "No traffic yet.";
    text($("sentence"), unbroken(sentence, told.variants));
    this.speak(sentence);
    this.facts(told, impressions);
    const alarm = told.sample_ratio?.alarm;
    $("ratio").hidden = !alarm;
    if (alarm) {
      const p = told.sample_ratio.p_value;
      text($("ratio"), `The split of traffic is not what it should be (p ${p < 0.0001 ? "< 0.0001" : `= ${p.toPrecision(2)}`}): find out why before you trust the comparison.`);
    }
    $("overview-body").hidden = !impressions;
    if (impressions) state($("overview-state"), null);
    else this.showEmpty(told);
    this.board(told);
    this.share(told);
    this.legend();
  }

  speak(sentence) {
    if (Date.now() - this.spokenAt < SPOKEN_EVERY) return;
    this.spokenAt = Date.now();
    text($("spoken"), sentence);
  }

  facts(told, impressions) {
    const parts = [
      plural(told.variants.length, "algorithm"),
      plural(told.items, "content"),
      plural(impressions, "impression"),
    ];
    if (told.since) parts.push(`since ${date(told.since)}`);
    if (told.variants.length > 1) parts.push(told.split === "sticky" ? "each user stays with one algorithm" : "each request draws its algorithm");
    if (told.learning === "shared" && told.variants.length > 1) parts.push("all learn from all");
    text($("facts"), parts.join(" · "));
  }

  showEmpty(told) {
    const where = location.origin;
    const steps = told.items
      ? [h("p", {}, `${plural(told.items, "content")} wait to be shown. Ask for a ranking:`), code(`curl ${where}/v1/rank -H 'Content-Type: application/json' -d '{"k": 3}'`)]
      : [
          h("p", {}, "Add contents, then ask for a ranking:"),
          code(`curl ${where}/v1/items -H 'Content-Type: application/json' -d '{"items": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}'`),
          code(`curl ${where}/v1/rank -H 'Content-Type: application/json' -d '{"k": 3}'`),
        ];
    state($("overview-state"), "empty", "The figure draws itself with the first ranking.", ...steps);
  }

  // Leaderboard -------------------------------------------------------------------------------------

  board(told) {
    const rows = told.variants;
    const { control } = told;
    const single = rows.length === 1;
    text($("board-title"), single ? "Result" : "Leaderboard");
    for (const element of [$("control").parentElement, $("share").parentElement, ...$("board").querySelectorAll("thead .versus")]) element.hidden = single;
    const select = $("control");
    if (select.options.length !== rows.length || select.value !== control) {
      select.replaceChildren(...told.variants.map(({ variant }) => h("option", { value: variant, selected: variant === control }, variant)));
    }
    const rates = scale(rows, "low", "high", "rate");
    const lifts = scale(rows.filter((row) => row.variant !== control), "lift_low", "lift_high", "lift", 0);
    fill(
      $("board").tBodies[0],
      rows.map((row) => {
        const colour = this.colour[row.variant];
        const own = row.variant === control;
        const bounded = known(row.lift_low);
        const versus = () => [
          cell("Lift", own ? "control" : change(row.lift), own ? "soft" : "strong"),
          h("td", { role: "cell", "data-label": "Its interval", class: own ? "band nothing" : "band" }, ...(own || !bounded ? [h("span", { class: "soft" }, own ? "" : "–")] : [interval(row.lift_low, row.lift_high ?? Infinity, row.lift, lifts, { colour, zero: 0 }), known(row.lift_high) ? ends(change(row.lift_low), change(row.lift_high)) : h("span", { class: "ends" }, `at least ${change(row.lift_low)}`)])),
          cell("Best", chance(row.probability_best)),
        ];
        return h(
          "tr",
          { role: "row" },
          h(
            "th",
            { scope: "row", role: "rowheader" },
            h("span", { class: "name" }, h("span", { class: "swatch", style: { background: colour } }), row.variant),
            row.policy && row.policy !== row.variant ? h("span", { class: "spec" }, row.policy) : null,
          ),
          cell("Impressions", count(row.impressions)),
          cell("Reward", count(row.reward)),
          cell("Rate", percent(row.rate), "strong"),
          h("td", { role: "cell", "data-label": "95 % interval", class: "band" }, ...(row.impressions ? [interval(row.low, row.high, row.rate, rates, { colour }), ends(percent(row.low), percent(row.high))] : ["–"])),
          ...(single ? [] : versus()),
        );
      }),
    );
    const note = told.verdict === "early" ? "There is too little data yet for a verdict. " : "";
    text(
      $("board-note"),
      single
        ? "Rate: reward per impression. Its interval stays valid however often you look."
        : `${note}Lift: how much higher the rate is than that of ${control}. Best: the probability of having the highest rate. Intervals stay valid however often you look.`,
    );
  }

  share(told) {
    const whole = told.variants.reduce((sum, row) => sum + row.requests, 0);
    const shares = told.variants.map((row) => [row, row.requests / (whole || 1)]);
    fill(
      $("share"),
      h("div", { class: "bar-share", "aria-hidden": "true" }, shares.map(([row, part]) => h("span", { style: { width: `${100 * part}%`, background: this.colour[row.variant] } }))),
      h(
        "ul",
        { class: "shares" },
        shares.map(([row, part]) =>
          h(
            "li",
            {},
            h("span", { class: "name" }, h("span", { class: "swatch", style: { background: this.colour[row.variant] } }), row.variant),
            h("span", { class: "value" }, percent(part)),
            h("span", { class: "soft" }, known(row.intended) ? `${percent(row.intended, 1)} intended` : plural(row.requests, "request")),
          ),
        ),
      ),
      h("p", { class: "note" }, ratio(told, whole)),
    );
  }

  legend() {
    fill(
      $("legend"),
      this.told.variants.map((row) =>
        h("li", {}, h("span", { class: "swatch", style: { background: this.colour[row.variant] } }), row.variant, h("strong", {}, count(row.reward))),
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

  drawCharts() {
    if (!this.told || !this.range) return;
    this.drawCurve();
    this.drawRate();
  }

  drawCurve() {
    const range = RANGES[this.range];
    let series = this.series[range.curve];
    if (series.steps.length - series.from(range.span) > MANY) series = this.series.day;
    const from = series.from(range.span);
    const names = this.names(series);
    const when = series.steps.slice(from);
    const before = (column) => (from ? column.cumulative[from - 1] : 0);
    // the reward of a step is there at its end: the curve begins with what had been gathered before
    const last = Math.min(Date.now(), (when.at(-1) ?? 0) + LENGTH[series.resolution]);
    const x = when.length ? [...when, last].map(local) : [];
    const traces = names.map((name) => ({
      type: "scatter",
      mode: "lines",
      name,
      x,
      y: when.length ? [before(series.variants[name]), ...series.variants[name].cumulative.slice(from)] : [],
      line: { color: this.colour[name] ?? "#888", width: 2.5 },
      hovertemplate: "%{y:,.0f}",
    }));
    const rangemode = Number.isFinite(range.span) && from > 0 ? "normal" : "tozero";
    draw($("curve"), traces, { x: { hoverformat: HOVER_TIME, type: "date" }, y: { rangemode, tickformat: "~s" } });
    const ends = names.map((name) => `${name} ${count(series.variants[name].cumulative.at(-1) ?? 0)}`).join(", ");
    $("curve").setAttribute("aria-label", `Line chart of cumulative reward by algorithm, ${range.label.toLowerCase()}. Reward so far: ${ends}.`);
    this.tabulate();
  }

  drawRate() {
    const series = this.series[this.step];
    const from = series.from(RANGES[this.range].span);
    const names = this.names(series);
    const x = series.labels(from);
    const few = x.length <= 40;
    const traces = names.map((name) => {
      const { impressions, reward } = series.variants[name];
      return {
        type: "scatter",
        mode: few ? "lines+markers" : "lines",
        name,
        x,
        y: impressions.slice(from).map((n, i) => (n ? reward[from + i] / n : null)),
        line: { color: this.colour[name] ?? "#888", width: few ? 2 : 1.5 },
        marker: { size: 5 },
        hovertemplate: "%{y:.2%}",
      };
    });
    const only = series.steps.length - from === 1 ? series.steps.at(-1) : null;
    const around = only === null ? {} : { range: [only - LENGTH[this.step], only + LENGTH[this.step]].map(local) };
    draw($("rate"), traces, { x: { ...around, hoverformat: this.step === "day" ? HOVER_DAY : HOVER_TIME, type: "date" }, y: { tickformat: "~%" } });
    const last = names.map((name) => `${name} ${percent(traces.find((trace) => trace.name === name).y.findLast(known))}`).join(", ");
    $("rate").setAttribute("aria-label", `Line chart of reward per impression, by ${this.step}. Last ${this.step}: ${last}.`);
  }

  names(series) {
    return this.told.variants.map(({ variant }) => variant).filter((name) => series.variants[name]);
  }

  /** The same as text, a row for each day (or the steps of a short range), newest first. */
  tabulate() {
    const box = $("curve-table");
    if (!box.closest("details").open || !this.range) return;
    const series = this.series[this.step];
    const names = this.names(series);
    const from = series.from(RANGES[this.range].span);
    const places = series.steps.map((_, i) => i).slice(from).slice(-60).reverse();
    const label = (step) => (series.resolution === "day" ? date(step) : moment(step));
    fill(
      box,
      h(
        "table",
        {},
        h("caption", { class: "hidden" }, `Cumulative reward and rate by ${series.resolution}, newest first`),
        h(
          "thead",
          {},
          h("tr", {}, h("th", { scope: "col", rowspan: 2 }, series.resolution[0].toUpperCase() + series.resolution.slice(1)), names.map((name) => h("th", { scope: "colgroup", colspan: 2, class: "num" }, name))),
          h("tr", {}, names.map(() => [h("th", { scope: "col", class: "num" }, "Reward so far"), h("th", { scope: "col", class: "num" }, "Rate")])),
        ),
        h(
          "tbody",
          {},
          places.map((i) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, label(series.steps[i])),
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
  const names = variants.map(({ variant }) => variant.replace(/[^\w\s]/g, "\\$&")).sort((a, b) => b.length - a.length);
  const spelled = sentence.replace(new RegExp(`(?<![\\w-])(${names.join("|")})(?![\\w-])`, "gi"), whole);
  return spelled.replaceAll(" %", "\u00a0%").replaceAll("–", "\u2060–\u2060").replaceAll(" (", "\u00a0(");
}

function cell(label, value, kind = "") {
  return h("td", { role: "cell", class: `num ${kind}`.trim(), "data-label": label }, value);
}

function ends(low, high) {
  return h("span", { class: "ends" }, `${low} to ${high}`);
}

function code(line) {
  return h("pre", {}, h("code", {}, line));
}

function ratio(told, whole) {
  if (!whole) return "";
  const p = told.sample_ratio?.p_value;
  if (!known(p)) return `${plural(whole, "request")} so far.`;
  return told.sample_ratio.alarm ? "The shares are further from what was asked for than chance explains." : `${plural(whole, "request")}; the shares are as chance would have them (p = ${p.toFixed(2)}).`;
}

/** Ends of a scale that shows every interval, but is not stretched by one of a variant with hardly any data. */
function scale(rows, low, high, middle, zero) {
  const good = rows.filter((row) => known(row[low]) && known(row[high]) && row.impressions);
  if (!good.length) return [0, 1];
  const middles = good.map((row) => row[middle]).filter(known);
  const spread = Math.max(...middles) - Math.min(...middles) || Math.abs(middles[0]) || 0.01;
  let from = Math.max(Math.min(...good.map((row) => row[low])), Math.min(...middles) - 3 * spread);
  let to = Math.min(Math.max(...good.map((row) => row[high])), Math.max(...middles) + 3 * spread);
  if (zero !== undefined) [from, to] = [Math.min(from, zero), Math.max(to, zero)];
  const room = 0.06 * (to - from || 0.01);
  return [from - room, to + room];
}
