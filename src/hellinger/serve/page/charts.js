// Charts in the page's own type and colours, light or dark.

// Okabe and Ito's colours, distinct with any kind of colour vision, and lighter ones of the same hues on dark.
const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B57A00", "#56B4E9", "#6A3D9A", "#8C510A", "#444444"];
const DARK = ["#4BA6E0", "#F2884B", "#35C49A", "#E29CC4", "#F0B840", "#8CCBF2", "#AE92DA", "#C89257", "#BBBBBB"];
const HABITUAL = { "hellinger-ucb": 0, "kl-ucb": 1, ucb1: 2, thompson: 3, imed: 4, "hellinger-imed": 5, "cold-start": 6, uniform: 8 };

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** A colour for each variant, whoever leads: the habitual one of its policy, as in the figures, else the first one free. */
export function colours(variants) {
  const palette = isDark() ? DARK : LIGHT;
  const taken = new Map();
  const named = variants.toSorted((a, b) => (a.variant < b.variant ? -1 : 1));
  for (const { variant, policy } of named) {
    const place = HABITUAL[(policy ?? variant).split("(")[0]];
    if (place !== undefined && ![...taken.values()].includes(place)) taken.set(variant, place);
  }
  let next = 0;
  for (const { variant } of named) {
    if (taken.has(variant)) continue;
    while ([...taken.values()].includes(next) && next < palette.length) next += 1;
    taken.set(variant, next % palette.length);
  }
  return Object.fromEntries([...taken].map(([name, place]) => [name, palette[place]]));
}

const loaded = new Promise((done, fail) => {
  if (window.Plotly) return done(window.Plotly);
  const script = document.getElementById("charts-script");
  script.addEventListener("load", () => done(window.Plotly));
  script.addEventListener("error", () => fail(new Error("the charts' script could not be loaded")));
});
loaded.catch(() => {});

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };

export async function draw(element, traces, { x = {}, y = {}, shapes = [], annotations = [], margin = {}, ...rest } = {}) {
  let plotly;
  try {
    plotly = await loaded;
  } catch (error) {
    element.textContent = `${error.message[0].toUpperCase()}${error.message.slice(1)}. The figures are in the tables.`;
    element.classList.add("missing");
    return;
  }
  if (!element.offsetWidth) return;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => (isDark() ? DARKS[name] : LIGHTS[name]);
  const axis = {
    gridcolor: colour("line"),
    linecolor: colour("axis"),
    tickcolor: colour("axis"),
    tickfont: { size: 12, color: colour("soft") },
    zeroline: false,
    fixedrange: true,
    automargin: true,
  };
  const layout = {
    font: { family: style.fontFamily, size: 13, color: colour("ink") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 44, r: 12, t: 8, b: 34, ...margin },
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("surface"), bordercolor: colour("axis"), font: { size: 13, color: colour("ink") } },
    showlegend: false,
    xaxis: { ...axis, showgrid: false, ticks: "outside", ticklen: 4, tickformatstops: STOPS, ...x },
    yaxis: { ...axis, rangemode: "tozero", ...y },
    shapes,
    annotations,
    dragmode: false,
    ...rest,
  };
  await plotly.react(element, traces, layout, CONFIG);
  element.dataset.drawn = "true";
}

// months and days as the rest of the page writes them; the year only where it begins
const STOPS = [
  { dtickrange: [null, 60e3], value: "%H:%M:%S" },
  { dtickrange: [60e3, 86400e3 - 1], value: "%H:%M\n%-d %b" },
  { dtickrange: [86400e3, "M1"], value: "%-d %b\n%Y" },
  { dtickrange: ["M1", null], value: "%b\n%Y" },
];

const LIGHTS = { ink: "#1d2126", soft: "#59616b", line: "#e9ebed", axis: "#c4c9cf", surface: "#ffffff" };
const DARKS = { ink: "#e7eaed", soft: "#a3abb5", line: "#262c32", axis: "#454d56", surface: "#1b2025" };

export const lineColour = () => (isDark() ? DARKS.soft : LIGHTS.soft);
export const HOVER_TIME = "%-d %b %Y, %H:%M";
export const HOVER_DAY = "%a %-d %b %Y";

/** A moment by the local clock: a chart's time axis knows no zones. */
export function local(x) {
  const t = new Date(x);
  return new Date(t.getTime() - 60e3 * t.getTimezoneOffset()).toISOString().slice(0, 19);
}

/** When a step begins: steps of a day are days of UTC, and keep their date. */
export const stepLabel = (x, resolution) => (resolution === "day" ? new Date(x).toISOString().slice(0, 10) : local(x));

const LANE = 16;
const LANES = 3;
const LONGEST = 44;

/** Where phases began: a line each, and above it what changed in words, or only its number where words have no room. */
export function marks(element, phases, [from, to]) {
  const width = element.offsetWidth - 60;
  const colour = lineColour();
  const ends = new Array(LANES).fill(-Infinity);
  const annotations = [];
  const seen = phases.filter(({ at }) => at >= from && at <= to);
  for (const { at, words, number, hint } of seen) {
    const x = (width * (at - from)) / (to - from || 1);
    const place = (text) => {
      const size = 6.6 * text.length + 8;
      const left = x + size > width && x > size;
      const start = left ? x - size : x;
      const lane = start + size > width + 12 ? -1 : ends.findIndex((end) => end <= start);
      if (lane >= 0) ends[lane] = start + size;
      return { text, lane, xanchor: left ? "right" : "left" };
    };
    let found = place(words.length > LONGEST ? `${words.slice(0, LONGEST).replace(/,?[^,]*$/, "")} …` : words);
    if (found.lane < 0) found = place(String(number));
    if (found.lane < 0) continue;
    annotations.push({ ...found, x: local(at), y: 1, yref: "paper", yanchor: "bottom", yshift: LANE * found.lane, showarrow: false, borderpad: 1, hovertext: hint, font: { size: 12, color: colour } });
  }
  const lanes = Math.max(-1, ...annotations.map(({ lane }) => lane)) + 1;
  const height = element.offsetHeight - 42 - LANE * lanes;
  return {
    shapes: seen.map(({ at }) => {
      const x = local(at);
      const reach = LANE * ((annotations.find((each) => each.x === x)?.lane ?? -1) + 1);
      return { type: "line", x0: x, x1: x, y0: 0, y1: 1 + reach / height, yref: "paper", line: { color: colour, width: 1, dash: "dot" } };
    }),
    annotations: annotations.map(({ lane, ...rest }) => rest),
    margin: lanes ? { t: 8 + LANE * lanes } : {},
    range: seen.length ? { range: [from, to].map(local) } : {},
  };
}
