"""A PgBouncer in front of a PostgreSQL server of ours: each transaction may run in another session."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from tests.support.services import Service, Unavailable, free_port, listening, private_directory, unprivileged


@contextmanager
def pooled(server: int, users: Collection[str]) -> Iterator[int]:
    """The port of one for the server at this port, and these users, without passwords; `Unavailable` without one."""
    binary = shutil.which("pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if binary is None:
        raise Unavailable("no pgbouncer on this machine (Debian: apt install pgbouncer)")
    user = unprivileged("postgres")
    home, port = private_directory(user), free_port()
    (home / "users").write_text("".join(f'"{name}" ""\n' for name in users))
    (home / "pgbouncer.ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={server}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
        f"unix_socket_dir =\nauth_type = trust\nauth_file = {home / 'users'}\npool_mode = transaction\n"
        "default_pool_size = 4\nserver_round_robin = 1\n"
    )
    service = Service("PgBouncer", [binary, home / "pgbouncer.ini"], log=home / "log", user=user)
    service.start(lambda: listening(port))
    try:
        yield port
    finally:
        service.kill()
