"""Keys and values that went before the first release, each with what takes its place."""

from __future__ import annotations

KEYS = {
    "bound_margin": "`settle` says how long a row may stay invisible after it took its timestamp",
    "commit_delay": 'it is `settle` now, and bound = "delay" asks for a delay',
    "bound_wait": "remove it: a process that has just begun samples for 5 seconds",
    "stamped_by": 'if the application sets the values, set bound = "delay", and `settle` to the longest transaction',
}
BOUNDS = {
    "observed": 'leave "observed" out: "auto" finds it where the user may not see all sessions; "strict" guards more',
    "observed-strict": '"observed-strict" is "strict" now',
    "heuristic": '"heuristic" is "delay" now',
}
