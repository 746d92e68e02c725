// Draws the charts from the data beside them, in the colours of the reader's theme.
const root = document.documentElement;
const theme = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Set();
const sizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const shown = target._fullLayout;
    if (shown && contentRect.width > 0 && Math.abs(shown.width - contentRect.width) > 1) {
      Plotly.Plots.resize(target);
    }
  }
});

function resolve(value, css) {
  if (typeof value === "string") return value.startsWith("--") ? css(value) : value;
  if (Array.isArray(value)) return value.map((item) => resolve(item, css));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, resolve(v, css)]));
}

function dressed(layout, css) {
  const axis = { gridcolor: css("--rule"), linecolor: css("--rule"), zerolinecolor: css("--muted"),
    zerolinewidth: 1, automargin: true, title: { standoff: 8 }, tickfont: { size: 11 } };
  const axes = { xaxis: axis, yaxis: axis };
  for (const [key, own] of Object.entries(layout)) {
    if (/^[xy]axis\d*$/.test(key)) {
      axes[key] = { ...axis, ...own, title: { ...axis.title, font: { size: 11 }, ...own.title } };
    }
  }
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--soft") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 8, r: 10, t: 8, b: 8 },
    hoverlabel: { bgcolor: css("--bg"), bordercolor: css("--rule"), font: { color: css("--ink") } },
    legend: { orientation: "h", yanchor: "bottom", y: 1.02, x: 0, bgcolor: "rgba(0,0,0,0)", ...layout.legend },
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    ...layout, ...axes,
  };
}

function draw(figure) {
  const plot = figure.querySelector(".plot");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  const style = getComputedStyle(root);
  const css = (name) => style.getPropertyValue(name).trim();
  if (!drawn.has(figure)) sizes.observe(plot);
  drawn.add(figure);
  return Plotly.react(plot, resolve(spec.data, css), dressed(resolve(spec.layout, css), css),
    { displayModeBar: false });
}

const figures = [...document.querySelectorAll("figure.chart")];
if (typeof Plotly === "undefined") {
  for (const figure of figures) {
    figure.querySelector(".plot").textContent =
      "The chart needs plotly.min.js beside this page. The tables say the same.";
  }
} else {
  // Only what comes into view is drawn: a page may hold hundreds of charts.
  const watcher = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting && !drawn.has(target)) draw(target);
    }
  }, { rootMargin: "600px" });
  figures.forEach((figure) => watcher.observe(figure));
  theme.addEventListener("change", () => drawn.forEach(draw));
}

// A link into a closed block opens it, and paper has nothing to click on.
function reveal() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === "DETAILS") {
    target.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((block) => { block.open = true; });
  if (typeof Plotly !== "undefined") figures.forEach((figure) => drawn.has(figure) || draw(figure));
});
