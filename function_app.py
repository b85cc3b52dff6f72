"""What the Azure Functions host loads: one timer function per poller in poller.toml, which stands beside this file.

The app setting POLLER_CONFIG names another file.
"""

from __future__ import annotations

import os

from poller.functions import create_app

app = create_app(os.environ.get("POLLER_CONFIG") or "poller.toml")
