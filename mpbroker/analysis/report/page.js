"use strict";
// Draws the figures in the colours of the reader's ground, follows a change of ground, and draws them light for paper.
(function () {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const look = read("look");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const charts = [...document.querySelectorAll(".chart[data-spec]")];
  const root = document.documentElement;
  const narrow = 560;
  let ground = prefersDark.matches ? "dark" : "light";

  function repaint(value, colored) {
    if (typeof value === "string") return colored && /^#[0-9a-f]{6}/i.test(value) ? (look.dark[value.slice(0, 7).toLowerCase()] || value.slice(0, 7)) + value.slice(7) : value;
    if (Array.isArray(value)) return colored ? value.map((inner) => repaint(inner, true)) : value.map((inner) => (inner && typeof inner === "object" && !Array.isArray(inner) ? repaint(inner, false) : inner));
    if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, repaint(inner, /colou?r(s|scale|way)?$/i.test(key))]));
    return value;
  }

  function fitted(layout, chart) {
    const width = chart.clientWidth, series = layout.showlegend ? Number(chart.dataset.series) : 0;
    const perLine = Math.max(1, Math.floor((width - 70) / (45 + 7 * Number(chart.dataset.longest))));
    const extra = Math.max(0, Math.ceil(series / perLine) - 1) * 19;
    const smaller = width < narrow ? { font: { size: 11 }, margin: { l: 40, r: 8, t: 12, b: 40, pad: 2 } } : {};
    return { ...layout, ...smaller, height: layout.height + extra, autosize: true };
  }

  function picture(chart) {
    const spec = (chart.mpbSpec ||= read(chart.dataset.spec));
    const painted = ground === "dark" ? repaint(spec, false) : spec;
    const layout = fitted({ ...painted.layout, template: look.templates[ground] }, chart);
    return [structuredClone(painted.data), structuredClone(layout)];
  }

  const options = { displaylogo: false, responsive: true, scrollZoom: false, doubleClick: "reset+autosize", modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
    toImageButtonOptions: { format: "png", scale: 2 } };

  function menusOf(chart) {
    return [...document.querySelectorAll("select[data-of]")].filter((menu) => menu.dataset.of === chart.dataset.spec);
  }

  async function choose(menu, chart) {
    const button = chart.mpbSpec.choices[menusOf(chart).indexOf(menu)].buttons[Number(menu.value)];
    await Plotly[button.method](chart, ...structuredClone(button.args));
  }

  async function draw(chart) {
    try {
      const [data, layout] = picture(chart);
      await Plotly.react(chart, data, layout, { ...options, toImageButtonOptions: { ...options.toImageButtonOptions, filename: chart.dataset.spec } });
      for (const menu of menusOf(chart)) await choose(menu, chart);
      if ("time" in chart.dataset && !chart.dataset.state) chart.on("plotly_relayout", (event) => follow(chart, event));
      chart.dataset.state = "drawn";
    } catch (error) {
      chart.dataset.state = "failed";
      chart.classList.add("failed");
      chart.textContent = "This figure could not be drawn: " + error.message;
    }
  }

  async function drawAll() {
    for (const chart of charts) {
      await draw(chart);
      await new Promise((later) => setTimeout(later));
    }
    root.dataset.drawn = charts.filter((chart) => chart.dataset.state === "drawn").length + "/" + charts.length;
  }

  // Time axes follow each other: a zoom in one figure is a zoom in all that show the time of day.
  const timed = charts.filter((chart) => "time" in chart.dataset);
  let following = false;
  async function follow(from, event) {
    const range = event["xaxis.range"] || (event["xaxis.range[0]"] !== undefined && [event["xaxis.range[0]"], event["xaxis.range[1]"]]);
    if (following || !(range || event["xaxis.autorange"])) return;
    following = true;
    try {
      for (const chart of timed) if (chart !== from && chart.dataset.state === "drawn")
        await Plotly.relayout(chart, { "xaxis.range": [...(range || chart.mpbSpec.layout.xaxis.range || [])] });
    } finally { following = false; }
  }

  const errors = [];
  addEventListener("error", (event) => { errors.push(event.message); root.dataset.errors = errors.join("; "); });
  prefersDark.addEventListener("change", () => { ground = prefersDark.matches ? "dark" : "light"; drawAll(); });

  addEventListener("beforeprint", () => {
    ground = "light";
    document.querySelectorAll("details").forEach((one) => { one.dataset.was = one.open ? "open" : ""; one.open = true; });
    charts.forEach((chart) => { const [data, layout] = picture(chart); Plotly.react(chart, data, { ...layout, autosize: false, width: 680 }, { ...options, displayModeBar: false }); });
  });
  addEventListener("afterprint", () => {
    ground = prefersDark.matches ? "dark" : "light";
    document.querySelectorAll("details").forEach((one) => { one.open = one.dataset.was === "open"; });
    drawAll();
  });

  for (const chart of charts) for (const menu of menusOf(chart)) menu.addEventListener("change", () => choose(menu, chart));

  const links = new Map([...document.querySelectorAll("nav.toc a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) {
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -75% 0px" });
  links.forEach((_, id) => { const target = document.getElementById(id); if (target) seen.observe(target); });

  drawAll();
})();
