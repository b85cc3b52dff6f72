"""Keys and values that went before the first release, each with the step that takes its place."""

from __future__ import annotations

KEYS = {
    "bound_margin": "Use `settle`: how long a row may stay invisible after it took its timestamp.",
    "commit_delay": 'Use `settle`; bound = "delay" asks for a delay.',
    "bound_wait": "Remove it: a process that has just begun samples for 5 seconds.",
    "commit": 'Use `max_uncommitted`: 1 commits each batch before the next one begins; 4 is what "grouped" was.',
    "read_ahead_bytes": "Remove it: about 64 MB are read ahead, or `batch_bytes` if that is larger.",
    "stamped_by": 'Remove it. If the application sets the values: bound = "delay", with a `settle`.',
}
BOUNDS = {
    "observed": 'Leave it out: "auto" is observed if the user may not see all sessions; "strict" guards more.',
    "observed-strict": 'Use "strict".',
    "heuristic": 'Use "delay".',
}
