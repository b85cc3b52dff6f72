  // Changes: a person confirms each of them. The key for them stands in one variable until the request is sent.
  const WORDS = {
    pause: ["Pause", "No new batch starts. One in hand is finished and committed."],
    resume: ["Resume", "It ends a pause, a halt, or both. The pending batch is tried afresh."],
    replay: ["Replay", "The handler gets this row now, in the process that serves this page."],
    discard: ["Discard", "This row is given up: it is never delivered, and that cannot be taken back."],
  };
  const field = (name) => document.getElementById(`change-${name}`);
  const whole = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");
  let wanted = null;
  let by = "";
  let turn = 0;  // of the dialog: what comes of a change is said in its own, never in one that was opened since

  const forget = () => {
    turn += 1;
    for (const name of ["name", "reason", "key"]) field(name).value = "";
    field("said").textContent = "";
  };

  const confirm = (button) => {
    if (!window.isSecureContext) {
      tell("A change needs a page that was served over https, or on this machine.");
      return;
    }
    wanted = { change: button.dataset.change, id: button.dataset.id };
    const [verb, what] = WORDS[wanted.change];
    const poller = document.getElementById("actions").dataset.name;
    field("title").textContent = wanted.id ? `${verb} the row ${wanted.id} of ${poller}` : `${verb} ${poller}`;
    field("what").textContent = what;
    field("do").textContent = verb;
    forget();
    field("by").value = by;
    document.getElementById("change").showModal();
  };

  const send = async () => {
    if (field("do").disabled) return;
    const page = document.getElementById("actions").dataset;
    const mine = turn;
    const here = () => mine === turn && Boolean(document.querySelector("#change[open]"));
    const said = (text, name) => {
      if (!here()) return tell(text);  // its reader has gone back, or closed it, meanwhile
      field("said").textContent = text;
      if (name) field(name)?.focus();
    };
    const secret = field("key").value.trim();
    by = field("by").value.trim();
    if (field("name").value.trim() !== page.name) return said("The name that was typed is not the poller's.", "name");
    if (!by) return said("Say who you are.", "by");
    if (!/^[\x21-\x7e]+$/.test(secret)) return said("Give the key for changes.", "key");
    field("key").value = "";
    field("do").disabled = true;
    said("Under way …");
    const ending = new AbortController();
    const timer = setTimeout(() => ending.abort(), PATIENCE);
    try {
      const body = { change: wanted.change, name: page.name, by };
      if (wanted.id) body.id = wanted.id;
      if (field("reason").value.trim()) body.reason = field("reason").value.trim();
      const headers = { "content-type": "application/json", "x-poller-csrf": page.token, authorization: `Bearer ${secret}` };
      if (key) headers["x-functions-key"] = key;
      const answer = await fetch(`${location.pathname}/changes`, {
        method: "POST", body: JSON.stringify(body), headers,
        credentials: "same-origin", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer",
        signal: ending.signal,
      });
      const told = await answer.json().catch(() => ({ error: `It was refused (${answer.status}).` }));
      if (!answer.ok) return said(whole(told.error), "key");
      if (here()) document.getElementById("change").close();
      await load(location.pathname, false);
      if (document.activeElement === document.body) document.getElementById("top")?.focus();
      tell(whole(told.message));
    } catch {
      said("No answer. Whether it was changed is not known: close this, and look.");
    } finally {
      clearTimeout(timer);
      if (field("do")) field("do").disabled = false;
    }
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-change]");
    if (button) confirm(button);
    else if (event.target.id === "change-do") send();
    else if (event.target.id === "change-cancel") document.getElementById("change").close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("#change input")) send();
  });
  // Of the dialog: Escape closes it, too.
  document.addEventListener("close", forget, true);
