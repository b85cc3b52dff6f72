"""Azure Functions: one timer per poller of the file.

    from poller.functions import create_app

    app = create_app("poller.toml")             # http=True: and the endpoints of `poller.http`

The only package that imports `azure.functions`.
"""

from __future__ import annotations

from poller.functions.outcome import UnsuccessfulTick
from poller.functions.timers import create_app, http_blueprint, on_timer

__all__ = ["UnsuccessfulTick", "create_app", "http_blueprint", "on_timer"]
