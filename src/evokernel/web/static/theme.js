// Apply the chosen theme before the first paint; without a choice, the system theme applies.
try {
  const chosen = localStorage.getItem("evokernel-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* storage is blocked: use the system theme */ }
