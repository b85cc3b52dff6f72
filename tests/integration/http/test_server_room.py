"""Callers who have their answer and hold on to their connection."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from poller.http import CallerLimits, HttpServer, read_address
from tests.support.http import endpoints, request, send


def test_who_has_an_answer_keeps_nobody_from_health() -> None:
    """However long it could stay where nobody waits: longer than any test does."""
    limits = CallerLimits(connections=4, lingering=3_600.0)
    with HttpServer(endpoints(), read_address("0"), limits) as serving, ExitStack() as callers:
        for _ in range(20):
            idle = callers.enter_context(socket.create_connection(("127.0.0.1", serving.port), timeout=30))
            idle.sendall(request())

        given = send(serving.port, request())
        assert given is not None
        assert given.status == 200
