"""What the Functions host loads: one timer function per poller in poller.toml."""

from __future__ import annotations

from poller.functions import create_app

app = create_app("poller.toml")
