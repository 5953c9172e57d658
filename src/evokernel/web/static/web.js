// Theme, relative times, copy buttons, forms that submit on change, and parts of the page that the server updates during a run.
(() => {
  const root = document.documentElement, button = document.getElementById("theme"), state = document.getElementById("live-state");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const label = () => { button.textContent = dark() ? "Light" : "Dark"; button.hidden = false; };
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("evokernel-theme", root.dataset.theme); } catch { /* storage is blocked: the choice lasts for this page only */ }
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", label);
  label();

  const ago = (seconds) => seconds < 60 ? `${Math.max(0, Math.round(seconds))} s ago` : seconds < 5400 ? `${Math.round(seconds / 60)} min ago`
    : seconds < 172800 ? `${Math.round(seconds / 3600)} h ago` : `${Math.round(seconds / 86400)} days ago`;
  const times = () => {
    for (const mark of document.querySelectorAll("time[data-at]")) {
      mark.textContent = ago(Date.now() / 1000 - Number(mark.dataset.at));
      mark.title = new Date(Number(mark.dataset.at) * 1000).toISOString();
    }
  };
  times();
  setInterval(times, 5000);

  for (const form of document.querySelectorAll("form[data-auto], form[data-submit]")) {
    const send = () => {  // send only filled fields, so that URLs stay short
      const filled = new URLSearchParams(), many = new Map();
      for (const [name, value] of new FormData(form)) if (value) many.set(name, [...(many.get(name) ?? []), value]);
      for (const [name, values] of many) filled.set(name, values.join(","));
      location.assign(`${form.getAttribute("action")}?${filled}`);
    };
    if ("auto" in form.dataset) form.addEventListener("change", (event) => { if (event.target.matches("select, [type=checkbox]")) send(); });
    form.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  }

  const copyText = async (text) => {
    try { await navigator.clipboard.writeText(text); return true; } catch { /* not a secure context: use the older way */ }
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  };
  document.addEventListener("click", async (event) => {
    const copy = event.target.closest("button.copy");
    if (!copy) return;
    const copied = await copyText(copy.closest(".copyable").querySelector("code, pre").textContent);
    copy.textContent = copied ? "Copied" : "Not copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });

  const put = (id, html) => {
    const place = document.getElementById(id);
    if (!place) return false;
    const open = [...place.querySelectorAll("details[open][data-keep]")].map((one) => one.dataset.keep);
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    const address = focused?.getAttribute("href") ?? focused?.closest("details")?.dataset.keep;
    const scrolled = [...place.querySelectorAll(".scroll")].map((one) => [one.scrollLeft, one.scrollTop]);
    place.innerHTML = html;
    for (const one of place.querySelectorAll("details[data-keep]")) if (open.includes(one.dataset.keep)) one.open = true;
    [...place.querySelectorAll(".scroll")].forEach((one, n) => { if (scrolled[n]) [one.scrollLeft, one.scrollTop] = scrolled[n]; });
    if (address) {
      const again = [...place.querySelectorAll("a, summary")].find((one) => (one.getAttribute("href") ?? one.closest("details")?.dataset.keep) === address);
      again?.focus({ preventScroll: true });
    }
    return true;
  };
  if (document.body.dataset.live) {
    let source = null, mark = document.body.dataset.mark, pressed = false, delayed = {};
    const update = () => {
      for (const [id, html] of Object.entries(delayed)) put(id, html);
      delayed = {};
      times();
    };
    // An update between the press and the release of a link would lose the click, so updates are delayed until the release.
    addEventListener("pointerdown", () => { pressed = true; }, true);
    for (const release of ["pointerup", "pointercancel", "dragend"])
      addEventListener(release, () => setTimeout(() => { pressed = false; update(); }), true);
    const close = () => { source?.close(); source = null; };
    const open = () => {
      if (source || document.hidden) return;
      source = new EventSource(`${document.body.dataset.live}&mark=${mark}`);
      source.addEventListener("open", () => { state.textContent = "live"; state.className = "state on"; });
      source.addEventListener("error", () => { state.textContent = "connection lost"; state.className = "state off"; });
      source.addEventListener("parts", (event) => {
        Object.assign(delayed, JSON.parse(event.data));
        if (!pressed) update();
        mark = event.lastEventId;
      });
      source.addEventListener("reload", () => location.reload());
    };
    // A browser opens at most six connections to a server, so hidden pages close theirs.
    document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
    addEventListener("pagehide", close);
    addEventListener("pageshow", open);
    open();
  }
})();
