// A chart of rounds by uPlot; a screen reader has the table below it.
import { el } from "/static/dom.js";

// The chart that is shown: it listens to the window, so it has to be let go before the next one is made.
let shown = null, place = null, told = "";

/** How many blocks each round trained, and how many claims it had and merged. rows: newest first. */
export function showRounds(rows) {
  const done = rows.filter((row) => row.closed !== null).reverse();
  if (done.length < 2 || !window.uPlot) return null;
  const said = JSON.stringify([done.map((row) => [row.round, row.claims, row.merged, row.closed, row.opened]), window.innerWidth]);
  if (place && place.isConnected && said === told) return place;
  told = said;
  place = el("div", { class: "chart", "aria-hidden": "true" });
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  const series = (label, name, scale) => ({ label, stroke: color(name), width: 2, scale, points: { size: 5 } });
  shown?.destroy();
  shown = new window.uPlot({
    width: Math.max(280, Math.min(900, document.getElementById("main").clientWidth - 24)), height: 220,
    scales: { x: { time: false }, count: { range: (_, low, high) => [0, Math.max(1, high) * 1.1] },
      blocks: { range: (_, low, high) => [0, Math.max(1, high) * 1.1] } },
    axes: [{ ...axis, label: "round", values: (_, at) => at.map((one) => Number.isInteger(one) ? one : "") },
      { ...axis, scale: "count", label: "claims" }, { ...axis, scale: "blocks", side: 1, label: "blocks", grid: { show: false } }],
    series: [{ label: "round" }, series("claims", "--link", "count"), series("merged", "--good", "count"),
      series("blocks of training", "--focus", "blocks")],
  }, [done.map((row) => row.round), done.map((row) => row.claims), done.map((row) => row.merged),
    done.map((row) => row.closed - row.opened)], place);
  return place;
}
