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

  async load() {
    const told = await get("/v1/experiments/main/series", { resolution: this.resolution });
    this.steps = told.steps.map((step) => Date.parse(step));
    this.variants = told.variants;
    this.ready = true;
    return this;
  }

  /** Take the last steps of a message in; says whether anything is new. */
  take(last) {
    if (!this.ready) return false;
    let fresh = false;
    for (const [iso, cells] of last ?? []) {
      const at = Date.parse(iso);
      let place = this.steps.lastIndexOf(at);
      if (place < 0) {
        if (this.steps.length && at < this.steps[this.steps.length - 1]) continue;
        place = this.steps.push(at) - 1;
        fresh = true;
      }
      for (const name of new Set([...Object.keys(this.variants), ...Object.keys(cells)])) {
        const column = (this.variants[name] ??= this.blank(place));
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

  blank(size) {
    const zeros = () => new Array(size).fill(0);
    return { requests: zeros(), impressions: zeros(), reward: zeros(), cumulative: zeros() };
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
