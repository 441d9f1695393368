"use strict";

// Index: search as you type, filters, order; the address always says what is shown.
const filters = document.getElementById("filters");
if (filters) {
  const list = document.getElementById("methods");
  const entries = [...list.children];
  const shown = document.getElementById("shown");
  const order = {
    name: (a, b) => a.dataset.slug.localeCompare(b.dataset.slug),
    verdict: (a, b) => rank(a) - rank(b),
    date: (a, b) => b.dataset.date.localeCompare(a.dataset.date),
    speed: (a, b) => Number(b.dataset.speed) - Number(a.dataset.speed),
  };
  const rank = (entry) => ["holds", "inconclusive", "fails", "none"].indexOf(entry.dataset.verdict);
  const read = () => Object.fromEntries([...new FormData(filters)].filter(([, value]) => value.trim()));

  const apply = () => {
    const wanted = read();
    const words = (wanted.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const entry of entries) {
      const fits = words.every((word) => entry.dataset.words.includes(word)) &&
        ["family", "verdict", "kind", "installed"].every((key) => !wanted[key] || entry.dataset[key] === wanted[key]);
      entry.hidden = !fits;
      count += fits;
    }
    list.append(...(order[wanted.sort] ? [...entries].sort(order[wanted.sort]) : entries));
    shown.textContent = count === entries.length ? "" : `${count} of ${entries.length} methods` + (count ? "" : ": nothing matches all of these");
    const query = new URLSearchParams(wanted).toString();
    history.replaceState(null, "", query ? `?${query}` : location.pathname);
  };

  for (const [key, value] of new URLSearchParams(location.search)) {
    const field = filters.elements[key];
    if (field) field.value = value;
    if (field && field.selectedIndex === -1) field.value = "";
  }
  filters.hidden = false;
  filters.addEventListener("input", apply);
  filters.addEventListener("submit", (event) => event.preventDefault());
  apply();
}

// A run in progress: the server tells what is new.
const live = document.getElementById("live");
if (live) {
  const bar = live.querySelector("progress");
  const count = document.getElementById("live-count");
  const log = document.getElementById("live-trials");
  const source = new EventSource(live.dataset.events);
  source.addEventListener("progress", (event) => {
    const state = JSON.parse(event.data);
    bar.max = state.n_planned;
    bar.value = state.n_done;
    count.textContent = `${state.n_done} of ${state.n_planned} trials` + (state.n_failed ? `, ${state.n_failed} failed` : "");
  });
  source.addEventListener("trial", (event) => {
    const trial = JSON.parse(event.data);
    const row = log.insertRow(0);
    for (const text of [trial.contender, trial.dataset_label, trial.seed, trial.status, trial.error || (trial.wall_seconds === null ? "" : `${trial.wall_seconds.toFixed(2)} s`)]) {
      row.insertCell().textContent = text;
    }
    while (log.rows.length > 100) log.deleteRow(-1);
  });
  source.addEventListener("end", () => {
    source.close();
    location.reload();
  });
}

// A run that waits or starts: go to its page once it has a number.
const job = document.getElementById("job");
if (job) {
  const state = document.getElementById("job-state");
  const look = async () => {
    const answer = await fetch(job.dataset.address);
    if (!answer.ok) return;
    const found = await answer.json();
    if (found.run_id && found.state !== "failed") location.replace(`/runs/${found.run_id}`);
    else if (["waiting", "running"].includes(found.state)) {
      state.textContent = found.state;
      setTimeout(look, 500);
    } else location.reload();
  };
  if (["waiting", "running"].includes(state.textContent.trim())) setTimeout(look, 300);
}
