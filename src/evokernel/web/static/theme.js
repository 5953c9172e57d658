// Chosen colours, set before the first paint; without a choice the system's are used.
try {
  const chosen = localStorage.getItem("evokernel-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* storage may be forbidden: then the system decides */ }
