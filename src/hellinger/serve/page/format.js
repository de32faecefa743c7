// Numbers, times and words as people read them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const NONE = "–";

export const known = (x) => x !== null && x !== undefined && Number.isFinite(x);

export function count(x) {
  if (!known(x)) return NONE;
  return Number.isInteger(x) || Math.abs(x) >= 1000 ? whole.format(x) : one.format(x);
}

/** A rate in [0, 1] as per cent, with as many digits as tell small rates apart. */
export function percent(x, digits) {
  if (!known(x)) return NONE;
  const size = Math.abs(100 * x);
  const places = digits ?? (size >= 99.95 || size === 0 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
  return `${(100 * x).toFixed(places).replace("-", "−")} %`;
}

/** A share of a whole: 10 %, 33.3 %; never broken, for it is part of longer texts. */
export function part(x) {
  return known(x) && x >= 0.001 ? `${one.format(100 * x)}\u00a0%` : percent(x);
}

/** A change relative to something: always with its sign. */
export function change(x) {
  if (!known(x)) return NONE;
  const size = Math.abs(100 * x);
  const text = size >= 1000 ? whole.format(size) : size.toFixed(1);
  return `${Number(text) === 0 ? "" : x < 0 ? "−" : "+"}${text} %`;
}

/** A probability, never rounded to certainty. */
export function chance(x) {
  if (!known(x)) return NONE;
  if (x > 0.999) return "> 99.9 %";
  if (x < 0.001) return "< 0.1 %";
  return percent(x, 1);
}

/** Seconds as milliseconds. */
export function milliseconds(x) {
  if (!known(x)) return NONE;
  const ms = 1000 * x;
  return `${ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

export function perSecond(x) {
  if (!known(x)) return NONE;
  return x >= 100 ? whole.format(x) : one.format(x);
}

export function duration(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const short = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const minute = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const date = (x) => (x ? day.format(new Date(x)) : NONE);
export const shortDate = (x) => short.format(new Date(x));
export const moment = (x) => (x ? minute.format(new Date(x)) : NONE);
export const time = (x) => clock.format(new Date(x));

export function ago(x) {
  const seconds = Math.max(0, (Date.now() - new Date(x)) / 1000);
  return seconds < 5 ? "just now" : `${duration(seconds)} ago`;
}

export function plural(n, word) {
  return `${count(n)} ${word}${n === 1 ? "" : "s"}`;
}

/** A length of time given in hours, in words. */
export function hours(x) {
  if (x >= 48 && x % 24 === 0) return `${count(x / 24)} days`;
  return x >= 1 ? plural(x, "hour") : plural(60 * x, "minute");
}

/** A variant's own name: elsewhere than in the main experiment it follows that of its experiment. */
export const label = (variant) => variant.replace(/^[a-z0-9_-]+:/, "");

/** The same where variants of several experiments are side by side. */
export function longLabel(variant) {
  const own = label(variant);
  return own === variant ? own : `${own} (${variant.slice(0, -own.length - 1)})`;
}
