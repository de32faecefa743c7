// The experiment over time, kept in step with the messages that come.

import { get } from "./api.js";
import { stepLabel } from "./charts.js";

export const LENGTH = { minute: 60e3, hour: 3600e3, day: 86400e3 };

/** One resolution: fetched once, then carried on by the last steps of every message. */
export class Series {
  constructor(resolution) {
    this.resolution = resolution;
    this.steps = [];
    this.variants = {};
    this.ready = false;
  }

  /** Fetch an experiment's steps, from its first ranking to the last it had. */
  async load(experiment) {
    this.ready = false;
    const { steps, variants } = await get(`/v1/experiments/${encodeURIComponent(experiment)}/series`, { resolution: this.resolution });
    const columns = Object.values(variants);
    const played = steps.map((_, i) => columns.some(({ impressions, reward }) => impressions[i] || reward[i]));
    const [first, last] = [Math.max(0, played.indexOf(true)), played.lastIndexOf(true) + 1];
    this.steps = steps.slice(first, last).map((step) => Date.parse(step));
    for (const column of columns) for (const name of Object.keys(column)) column[name] = column[name].slice(first, last);
    this.variants = variants;
    this.ready = true;
  }

  /** Take the last steps of a message in; says whether anything is new. */
  take(last) {
    if (!this.ready) return false;
    let fresh = false;
    for (const [iso, cells] of last ?? []) {
      const at = Date.parse(iso);
      let place = this.steps.lastIndexOf(at);
      if (place < 0) {
        if (!Object.keys(this.variants).some((name) => cells[name])) continue;
        if (this.steps.length && at < this.steps[this.steps.length - 1]) continue;
        place = this.steps.push(at) - 1;
        fresh = true;
      }
      for (const [name, column] of Object.entries(this.variants)) {
        const [requests, impressions, reward] = cells[name] ?? [0, 0, 0];
        fresh ||= column.impressions[place] !== impressions || column.reward[place] !== reward;
        column.requests[place] = requests;
        column.impressions[place] = impressions;
        column.reward[place] = reward;
        for (let i = place; i < this.steps.length; i++) {
          column.cumulative[i] = (i ? column.cumulative[i - 1] : 0) + (column.reward[i] ?? 0);
        }
      }
    }
    return fresh;
  }

  /** The rate over the last `span` milliseconds at each step from a place on, to the variant's last impression. */
  moving(name, from, span) {
    const { impressions, reward } = this.variants[name];
    const last = impressions.findLastIndex((shown) => shown > 0);
    let [first, n, s] = [0, 0, 0];
    return this.steps
      .map((step, i) => {
        n += impressions[i];
        s += reward[i];
        for (; this.steps[first] <= step - span; first++) {
          n -= impressions[first];
          s -= reward[first];
        }
        return n && i <= last ? s / n : null;
      })
      .slice(from);
  }

  /** Index of the first step that reaches into the last `span` milliseconds. */
  from(span, now = Date.now()) {
    if (!Number.isFinite(span)) return 0;
    const first = now - span - LENGTH[this.resolution];
    const found = this.steps.findIndex((step) => step >= first);
    return found < 0 ? this.steps.length : found;
  }

  /** When each step from a place on begins, for a chart. */
  labels(from) {
    return this.steps.slice(from).map((step) => stepLabel(step, this.resolution));
  }

  get span() {
    return this.steps.length ? this.steps[this.steps.length - 1] - this.steps[0] : 0;
  }
}
