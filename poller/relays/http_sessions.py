"""Connections of the relay `http`: one session for each thread and process, and no address in a log."""

from __future__ import annotations

import logging
import re
import threading
from typing import TYPE_CHECKING, Any

from poller import forks
from poller.answers import Limited
from poller.model.redact import redact

if TYPE_CHECKING:
    import requests


class HttpSessions:
    """One for each thread and process: a session serves one at a time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._mine = threading.local()
        self._all: list[requests.Session] = []
        logging.getLogger("urllib3.connectionpool").addFilter(_without_addresses)

    def current(self) -> requests.Session:
        """This thread's."""
        found: Any = getattr(self._mine, "found", None)
        if found is None or found[0] != forks.generation():
            found = self._mine.found = forks.generation(), self._made()
        session: requests.Session = found[1]
        return session

    def close(self) -> None:
        """Let go of all of them; the next request opens another."""
        self._mine = threading.local()
        while self._all:
            self._all.pop().close()

    def _made(self) -> requests.Session:
        import requests

        session = requests.Session()
        # The environment is read once, for proxies and certificates. A `.netrc` would replace our own headers.
        found = session.merge_environment_settings(self._url, {}, None, None, None)
        session.proxies, session.verify, session.trust_env = found["proxies"], found["verify"], False
        for scheme in ("http://", "https://"):
            session.mount(scheme, Limited())  # an answer as a whole has the time that a silence has
        # A redirect is not looked at either: requests would read all of its body, however long that is.
        session.get_redirect_target = lambda resp: None  # type: ignore[method-assign]  # noqa: ARG005
        self._all.append(session)
        return session


class _WithoutAddresses(logging.Filter):
    """urllib3 logs paths and queries, where keys stand."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter`."""
        record.msg, record.args = redact(re.sub(r"\?[^\s\"]*", "?***", record.getMessage())), None
        return True


_without_addresses = _WithoutAddresses()
