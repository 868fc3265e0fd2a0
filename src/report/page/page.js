// Draws the two charts from the JSON that the page carries. All numbers stand in the tables too.
(() => {
  const source = document.getElementById("chart-data");
  if (!source || typeof Chart === "undefined") return;
  const targets = JSON.parse(source.textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (value) => (value === 0 ? "0" : value < 0.01 || value >= 1e5 ? value.toExponential(1) : String(+value.toPrecision(2)));
  const milliseconds = (value) => `${+value.toPrecision(3)} ms`;

  // Rows from top to bottom are targets; a row's centre is its index.
  const rows = () => ({
    type: "linear", reverse: true, min: -0.5, max: targets.length - 0.5, border: { display: false },
    afterBuildTicks: (axis) => { axis.ticks = targets.map((_, index) => ({ value: index })); },
    ticks: { color: css("--ink"), autoSkip: false, callback: (value) => targets[value]?.name ?? "" },
    grid: { color: "transparent", drawBorder: false, drawTicks: false },
  });
  const values = (extra) => ({
    ticks: { color: css("--muted"), maxRotation: 0, padding: 6, ...extra.ticks },
    grid: { color: css("--line"), drawBorder: false, drawTicks: false, ...extra.grid }, ...extra.scale,
  });
  const base = (scales, plugins) => ({
    responsive: true, maintainAspectRatio: false, animation: false, layout: { padding: { right: 56 } },
    scales, plugins: { legend: { display: false }, ...plugins },
  });
  const line = (context, x, top, bottom, colour, dash) => {
    context.save();
    context.strokeStyle = colour; context.lineWidth = 2; context.setLineDash(dash ?? []);
    context.beginPath(); context.moveTo(x, top); context.lineTo(x, bottom); context.stroke();
    context.restore();
  };
  const label = (context, text, x, y, colour, align = "left") => {
    context.save();
    context.fillStyle = colour; context.font = `12px ${Chart.defaults.font.family}`;
    context.textAlign = align; context.textBaseline = "middle"; context.fillText(text, x, y);
    context.restore();
  };

  const errorChart = () => {
    const outputs = [...new Set(targets.flatMap((target) => Object.keys(target.errors)))];
    const measured = targets.flatMap((target) => [...Object.values(target.errors), target.noise, target.atol]).filter((value) => value > 0);
    const low = 10 ** (Math.floor(Math.log10(Math.min(...measured, 1e-6))) - 0.5);
    const high = 10 ** Math.ceil(Math.log10(Math.max(...measured, 1e-3)) + 0.2);
    const place = (value) => (value > 0 ? value : low * 1.8);  // an exact zero stands at the left edge
    const colour = (index) => css(outputs.length <= 6 ? `--series-${index + 1}` : "--series-1");
    const datasets = outputs.map((output, index) => ({
      label: output, clip: false, pointRadius: 6, pointHoverRadius: 8, borderColor: css("--card"), borderWidth: 1.5, backgroundColor: colour(index),
      data: targets.flatMap((target, row) => (target.errors[output] >= 0 ? [{ x: place(target.errors[output]), y: row, exact: target.errors[output] }] : [])),
    }));
    const marks = {
      id: "marks",
      beforeDatasetsDraw: ({ ctx, scales, chartArea }) => {
        targets.forEach((target, row) => {
          const y = scales.y.getPixelForValue(row);
          if (target.noise > 0) line(ctx, scales.x.getPixelForValue(target.noise), y - 11, y + 11, css("--muted"));
          if (target.atol > 0) line(ctx, scales.x.getPixelForValue(target.atol), y - 18, y + 18, css("--bad"), [4, 3]);
        });
        const first = targets.find((target) => target.atol > 0);
        if (first) label(ctx, "tolerance", scales.x.getPixelForValue(first.atol), chartArea.top - 8, css("--bad"), "center");
      },
      afterDatasetsDraw: ({ ctx, scales }) => {
        targets.forEach((target, row) => {
          const worst = Math.max(...Object.values(target.errors));
          if (worst >= 0) label(ctx, worst === 0 ? "0 (equal)" : short(worst), scales.x.getPixelForValue(place(worst)) + 11, scales.y.getPixelForValue(row), css("--ink"));
        });
      },
    };
    const decade = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6;
    const options = base(
      { x: values({
          scale: { type: "logarithmic", min: low, max: high },
          ticks: { callback: (value) => value.toExponential(0), autoSkipPadding: 12 },
        }), y: rows() },
      { legend: { display: outputs.length > 1 && outputs.length <= 6, position: "bottom", labels: { color: css("--ink"), usePointStyle: true } },
        tooltip: { callbacks: { label: ({ dataset, raw }) => `${targets[raw.y].name}, ${dataset.label}: ${short(raw.exact)}` } } });
    options.layout.padding.top = 16;
    options.scales.x.afterBuildTicks = (axis) => { axis.ticks = axis.ticks.filter(({ value }) => decade(value)); };
    return { type: "scatter", data: { datasets }, options, plugins: [marks] };
  };

  const latencyChart = () => {
    const measured = targets.map((target, row) => ({ x: target.mean, y: row, ci95: target.ci95 })).filter((point) => point.x > 0);
    const whiskers = {
      id: "whiskers",
      afterDatasetsDraw: ({ ctx, scales }) => measured.forEach(({ x, y, ci95 }) => {
        const row = scales.y.getPixelForValue(y);
        const ends = (ci95 ?? [x, x]).map((value) => scales.x.getPixelForValue(value));
        ctx.save();
        ctx.strokeStyle = css("--ink"); ctx.lineWidth = 1.5; ctx.beginPath();
        if (ci95) { ctx.moveTo(ends[0], row); ctx.lineTo(ends[1], row); }
        if (ci95) for (const end of ends) { ctx.moveTo(end, row - 5); ctx.lineTo(end, row + 5); }
        ctx.stroke(); ctx.restore();
        label(ctx, milliseconds(x), ends[1] + 9, row, css("--ink"));
      }),
    };
    const dataset = { data: measured, indexAxis: "y", barThickness: 16, borderRadius: 3, backgroundColor: css("--series-1"), parsing: { xAxisKey: "x", yAxisKey: "y" } };
    const options = base(
      { x: values({ scale: { beginAtZero: true, grace: "12%", title: { display: true, text: "milliseconds", color: css("--muted") } }, ticks: {} }), y: rows() },
      { tooltip: { callbacks: { title: () => "", label: ({ raw }) => `${targets[raw.y].name}: ${milliseconds(raw.x)}${raw.ci95 ? ` (95 %: ${raw.ci95.map(milliseconds).join(" to ")})` : ""}` } } });
    options.indexAxis = "y";
    return { type: "bar", data: { datasets: [dataset] }, options, plugins: [whiskers] };
  };

  const drawn = [];
  const draw = () => {
    drawn.splice(0).forEach((chart) => chart.destroy());
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    for (const [id, make] of [["error-chart", errorChart], ["latency-chart", latencyChart]]) {
      const canvas = document.getElementById(id);
      if (canvas) drawn.push(new Chart(canvas, make()));
    }
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Paper is white.
  addEventListener("beforeprint", () => { document.documentElement.classList.add("light"); draw(); });
  addEventListener("afterprint", () => { document.documentElement.classList.remove("light"); draw(); });
})();
