"""HTTP endpoints: whether pollers are healthy, and how much waits; and changes, if they are offered.

    with load_app("poller.toml") as app, serve(app, "8080"):
        run(app.pollers.values())

| endpoint | who may ask | answer |
|---|---|---|
| `GET /api/health` | anybody | 200 or 503 and nothing else; with a key, also why |
| `GET /api/pollers` | who has a key | the health of every poller |
| `GET /api/pollers/{name}` | who has a key | the health of one |
| `POST /api/pollers/{name}/tick` | who has the key for changes | 202: one tick now; `GET`: what came of it (`ticks`) |
| `GET /api/scale/{name}` | who has a key | `{"pending", "lag_seconds"}`, for a scaler |
| `GET /api/dashboard` | who has a key | the status page of all pollers, for a browser (`page`) |
| `GET /api/dashboard/{name}` | who has a key | that of one |
| `POST /api/dashboard/{name}/changes` | who has a key for changes too | pause, resume, replay, discard (`changes`) |

Nothing but the two POSTs changes anything, and without a key for changes they are not there.

`endpoints` answers a `Request` of `messages` and knows no server. Two serve it: `server`, sockets in this process
(`poller run --http`), and `poller.functions`, by HTTP functions. The order in which a request is judged:

1. its head, byte by byte (`parsing`; in Functions the host does it): a plain 4xx;
2. its `Host`: one that is neither loopback nor listed is refused (421), so that no page of another worker's can ask in
   the name of a browser that is behind the firewall (`hosts`);
3. its key, before anything is said about paths or names (`keys`): without one, 401 for all that is not anonymous, with
   a page that asks for the key at and below `/api/dashboard`, whatever is there;
4. its path, its method, its name, before any I/O;
5. the answer, from a check that all callers share (`looks`): 10 s old at most, if looks are quick and databases answer.

What is not promised: that a flood is served. 32 callers are served at a time, and the rest wait; pollers go on.
Liveness is not answered here: a worker that drains a backlog is late and well.
"""

from __future__ import annotations

from poller.http.addresses import read_address
from poller.http.endpoints import ROUTES, Endpoints, Route
from poller.http.hosts import Hosts
from poller.http.keys import ChangesKey, Keys
from poller.http.messages import Answer, Request
from poller.http.server import CallerLimits, HttpServer
from poller.http.serving import endpoints_of, serve

__all__ = [
    "ROUTES",
    "Answer",
    "CallerLimits",
    "ChangesKey",
    "Endpoints",
    "Hosts",
    "HttpServer",
    "Keys",
    "Request",
    "Route",
    "endpoints_of",
    "read_address",
    "serve",
]
