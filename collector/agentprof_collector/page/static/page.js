// Renews what is live on a page; without this script a page renews itself whole.
"use strict";
(() => {
  const mark = document.querySelector("[data-live]");
  if (!mark) return;
  const status = mark.querySelector("[data-status]");
  const least = Number(mark.dataset.live) * 1000;
  let pause = least;
  let timer = 0;

  const isBusy = () => {
    const region = document.getElementById("live");
    const selection = document.getSelection();
    return Boolean(selection && !selection.isCollapsed && region.contains(selection.anchorNode));
  };

  const renew = async () => {
    if (!isBusy()) {
      try {
        const begin = performance.now();
        const response = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
        if (!response.ok) throw new Error(String(response.status));
        const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
        // A page that takes long to make is asked for less often.
        pause = Math.max(least, 10 * (performance.now() - begin));
        const region = fresh.getElementById("live");
        const old = document.getElementById("live");
        if (region && old && region.innerHTML !== old.innerHTML) {
          const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
          old.replaceWith(region);
          if (focused) {
            const again = [...region.querySelectorAll("a[href]")].find((a) => a.getAttribute("href") === focused);
            if (again) again.focus({ preventScroll: true });
          }
        }
        status.textContent = "live";
        mark.classList.remove("lost");
        if (!fresh.querySelector("[data-live]")) {
          status.textContent = "ended";
          return;
        }
      } catch {
        status.textContent = "no answer";
        mark.classList.add("lost");
      }
    }
    schedule();
  };

  const schedule = () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") timer = setTimeout(renew, pause);
  };

  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") renew();
  });
  schedule();
})();
