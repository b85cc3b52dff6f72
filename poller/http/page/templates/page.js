"use strict";
(() => {
  // A key comes from the person before the page, or from the address that the host of a function app was opened with.
  // It is kept in this variable and travels in one header: in no address, no link, no form, no cookie, no storage.
  // The cookie that comes with a page grants nothing: it ties a change to the page that asks for it.
  let key = null;
  // Of a query only what the list asks for: a key in it goes no further.
  const asks = (search) => {
    const kept = [...new URLSearchParams(search)].filter(([name, value]) => value && ["q", "severity", "page"].includes(name));
    return kept.length ? `?${new URLSearchParams(kept)}` : "";
  };
  const here = () => location.pathname + location.search;
  if (location.search || location.hash) {
    key = new URLSearchParams(location.search).get("code");
    history.replaceState(null, "", location.pathname + asks(location.search));
  }

  const EVERY = 15000;
  const PATIENCE = 14000;  // a server that takes a request and never answers must not look like one that is well
  let shown = Date.now();
  let asked = 0;
  let underWay = 0;

  const main = () => document.getElementById("main");
  const tell = (text) => {
    const place = document.getElementById("told");
    if (place && place.textContent !== text) place.textContent = text;
  };
  const time = (at) => `${new Date(at).toISOString().slice(11, 19)} UTC`;  // as all times of the page

  // Somebody is in the middle of something that a new page would take away.
  const held = () => {
    const at = document.activeElement;
    return Boolean(document.querySelector("dialog[open]")) ||
      Boolean(at && main().contains(at) && at.matches("input") && at.value !== at.defaultValue);
  };

  const replace = (text, moved) => {
    // Not the head: its style has a nonce that is not this page's.
    const fresh = new DOMParser().parseFromString(text.slice(text.lastIndexOf("<body>")), "text/html");
    const next = fresh.getElementById("main");
    if (!next) throw new Error("not a page");
    const open = [...document.querySelectorAll("details[open][id]")].map((one) => one.id);
    const at = document.activeElement && main().contains(document.activeElement) ? document.activeElement : null;
    const link = at && at.matches("a[href]") ? at.getAttribute("href") : null;
    const id = at ? at.id || (at.closest("details[id]") || {}).id : null;
    main().replaceWith(document.adoptNode(next));
    document.title = next.dataset.title;
    if (moved) {
      window.scrollTo(0, 0);
      const top = document.getElementById("key") || document.getElementById("top");
      if (top) top.focus();
      return;
    }
    for (const one of open) document.getElementById(one)?.setAttribute("open", "");
    const same = (id && document.getElementById(id)) || (link && main().querySelector(`a[href="${CSS.escape(link)}"]`));
    const focus = same && same.matches("details") ? same.querySelector("summary") : same;
    if (focus) focus.focus({ preventScroll: true });
  };

  // Ask for a page of ours and show it. `moved`: it is another one than before. `push`: going back leads here again.
  const load = async (path, moved, push) => {
    const mine = ++asked;
    const address = new URL(path, location.href);
    if (address.origin !== location.origin) return;
    const place = address.origin + address.pathname + asks(address.search);  // with its origin: a path that begins with // would name a host
    const headers = key ? { "x-functions-key": key } : {};
    const ending = new AbortController();
    const timer = setTimeout(() => ending.abort(), PATIENCE);
    underWay += 1;
    try {
      const answer = await fetch(place, {
        headers, credentials: "same-origin", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
        signal: ending.signal,
      });
      const text = await answer.text();
      if (mine !== asked || (!moved && held())) return;  // a dialog may have been opened meanwhile
      if (answer.status === 401) {
        const refused = key !== null;
        key = null;
        if (document.getElementById("key")) {
          document.getElementById("key").value = "";
          document.getElementById("key").focus();
        } else {
          replace(text, true);
        }
        tell(refused ? "This key was not accepted." : "");
        return;
      }
      if (push) history.pushState(null, "", place);
      replace(text, moved);
      shown = Date.now();
      tell("");
    } catch {
      if (mine === asked) tell(`No answer. Shown is what was known at ${time(shown)}.`);
    } finally {
      clearTimeout(timer);
      underWay -= 1;
    }
  };

  const signIn = () => {
    const given = document.getElementById("key").value.trim();
    if (!/^[\x21-\x7e]+$/.test(given)) {
      tell("A key has letters, digits and signs, and no space.");
      return;
    }
    key = given;
    load(here(), true);
  };

  const refresh = () => {
    if (underWay || document.hidden || document.getElementById("key") || held()) return;
    load(here(), false);
  };

  document.addEventListener("click", (event) => {
    if (event.target.id === "open") {
      signIn();
      return;
    }
    const link = event.target.closest("a[data-page]");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    load(link.getAttribute("href"), true, true);
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-page]")) return;
    event.preventDefault();
    load(`${location.pathname}?${new URLSearchParams(new FormData(event.target))}`, true, true);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.id === "key") signIn();
  });
  window.addEventListener("popstate", () => load(here(), true));
  document.addEventListener("visibilitychange", () => {
    if (Date.now() - shown >= EVERY) refresh();
  });
  setInterval(refresh, EVERY);

{% include "changes.js" %}
})();
