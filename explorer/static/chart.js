// Charts of rounds by uPlot; a screen reader has the tables below them.
import { el } from "/static/dom.js";

// The charts that are shown: each listens to the window, so it has to be let go before the next one is made.
const shown = new Map();
const LEGEND_MAX = 8;
// Times the middle of all losses: what lies farther off leaves the picture. A node may report any loss.
const FAR = 4;

function draw(name, data, choose) {
  if (!window.uPlot) return null;
  const said = JSON.stringify([data, window.innerWidth]);
  const before = shown.get(name);
  if (before && before.place.isConnected && before.said === said) return before.place;
  before?.plot.destroy();
  const place = el("div", { class: "chart", "aria-hidden": "true" });
  const style = getComputedStyle(document.documentElement);
  const color = (variable) => style.getPropertyValue(variable).trim();
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  const rounds = { ...axis, label: "round", values: (_, at) => at.map((one) => Number.isInteger(one) ? one : "") };
  const plot = new window.uPlot({
    width: Math.max(280, Math.min(900, document.getElementById("main").clientWidth - 24)), height: 220,
    ...choose(color, axis, rounds),
  }, data, place);
  shown.set(name, { said, place, plot });
  return place;
}

/** How many blocks each round trained, and how many claims it had and merged. rows: newest first. */
export function showRounds(rows) {
  const done = rows.filter((row) => row.closed !== null).reverse();
  if (done.length < 2) return null;
  const data = [done.map((row) => row.round), done.map((row) => row.claims), done.map((row) => row.merged),
    done.map((row) => row.closed - row.opened)];
  return draw("rounds", data, (color, axis, rounds) => {
    const series = (label, name, scale) => ({ label, stroke: color(name), width: 2, scale, points: { size: 5 } });
    return {
      scales: { x: { time: false }, count: { range: (_, low, high) => [0, Math.max(1, high) * 1.1] },
        blocks: { range: (_, low, high) => [0, Math.max(1, high) * 1.1] } },
      axes: [rounds, { ...axis, scale: "count", label: "claims" },
        { ...axis, scale: "blocks", side: 1, label: "blocks", grid: { show: false } }],
      series: [{ label: "round" }, series("claims", "--link", "count"), series("merged", "--good", "count"),
        series("blocks of training", "--focus", "blocks")],
    };
  });
}

/** The held-out loss of each model, from before any training on. losses: in the order of the rounds. */
export function showHeldout(losses) {
  const known = losses.filter((one) => one.loss !== null);
  if (known.length < 2) return null;
  const first = known[0].rounds_done;
  const bound = (sign) => known.map((one) => one.loss + sign * (one.error ?? 0));
  const data = [known.map((one) => one.rounds_done), known.map((one) => one.loss), bound(-1), bound(1)];
  return draw("heldout", data, (color, axis) => {
    const bar = (label) => ({ label, stroke: color("--soft"), width: 1, dash: [4, 4], scale: "nats", points: { show: false } });
    return {
      scales: { x: { time: false }, nats: { range: (_, low, high) => [low * 0.95, high * 1.05] } },
      axes: [{ ...axis, label: first ? "rounds done" : "rounds done (0: before training)", values: (_, at) => at.map((one) => Number.isInteger(one) ? one : "") },
        { ...axis, scale: "nats", label: "nats" }],
      series: [{ label: "rounds done" },
        { label: "held-out loss", stroke: color("--link"), width: 3, scale: "nats", points: { size: 6 } },
        bar("less a standard error"), bar("plus a standard error")],
    };
  });
}

/** The losses that solvers report of claims that count, a line for each shard, and their mean. rows: newest first. */
export function showLosses(rows) {
  const told = rows.filter((row) => row.losses).reverse();
  if (told.length < 2) return null;
  const shards = [...Array(Math.max(...told.map((row) => row.losses.by_shard.length))).keys()];
  const counted = (row, shard) => row.losses.void.includes(shard) ? null : row.losses.by_shard[shard] ?? null;
  const lines = shards.map((shard) => told.map((row) => counted(row, shard)));
  const all = lines.flat().filter((one) => one !== null).sort((a, b) => a - b);
  if (!all.length) return null;
  const far = FAR * all[Math.floor(all.length / 2)];
  const data = [told.map((row) => row.round), ...lines, told.map((row) => row.losses.mean)];
  return draw("losses", data, (color, axis, rounds) => ({
    scales: { x: { time: false }, nats: { range: (_, low, high) => [low * 0.95, Math.max(low * 1.05 + 0.01, Math.min(high, far) * 1.02)] } },
    axes: [rounds, { ...axis, scale: "nats", label: "nats" }],
    legend: { show: shards.length <= LEGEND_MAX },
    series: [{ label: "round" },
      ...shards.map((shard) => ({ label: `shard ${shard}`, stroke: color("--soft"), width: 1, scale: "nats", points: { size: 4 } })),
      { label: "mean of those that count", stroke: color("--link"), width: 3, scale: "nats", points: { size: 6 } }],
  }));
}
