"""Commands that go on beside their test, or on a terminal, forked from the forge: so they start at once."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pexpect
from pexpect import pty_spawn

from tests.cli.readable import readable


class Child:
    """A process of the forge, which says here how it ended.

    Attributes:
        pid: its process id.
    """

    def __init__(
        self,
        at: Path,
        arguments: Sequence[str],
        streams: Sequence[int],
        *,
        folder: str,
        environ: Mapping[str, str],
        terminal: bool = False,
    ) -> None:
        """Start it with these three streams, in a session of its own; `terminal`: they are that session's."""
        self._forge = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._forge.connect(str(at))
        order = {"arguments": list(arguments), "folder": folder, "environ": dict(environ), "terminal": terminal}
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
        self._forge.sendmsg([json.dumps(order).encode()], passed)
        self.pid = int(self._forge.recv(64))

    def status(self, *, wait: bool) -> int | None:
        """What waitpid says of it; None: it runs."""
        if not wait and not readable(self._forge, 0):
            return None
        said = self._forge.recv(64)
        self._forge.close()
        return int(said) if said else int(signal.SIGKILL)  # the forge is gone, and its children with it


class Started(subprocess.Popen[str]):
    """As `Popen` of the command with these arguments."""

    def __init__(self, at: Path, arguments: Sequence[str], **options: Any) -> None:
        self._at, self._arguments = at, arguments
        self._forked: Child | None = None
        super().__init__(["poller", *arguments], **options)

    def _execute_child(self, *given: Any) -> None:
        ends = given[10:16]
        streams, folder, environ = (ends[0], ends[3], ends[5]), str(given[5]), given[6]
        self._forked = Child(self._at, self._arguments, streams, folder=folder, environ=environ)
        self.pid = self._forked.pid
        self._child_created = True
        self._close_pipe_fds(*ends)  # type: ignore[attr-defined]

    def _try_wait(self, flags: int) -> tuple[int, int]:
        status = None if self._forked is None else self._forked.status(wait=not flags & os.WNOHANG)
        return (0, 0) if status is None else (self.pid, status)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


class _Pty(pty_spawn.ptyprocess.PtyProcess):  # type: ignore[misc]
    terminated: bool
    exitstatus: int | None
    signalstatus: int | None

    def __init__(self, child: Child, fd: int) -> None:
        super().__init__(child.pid, fd)
        self._child = child

    def isalive(self) -> bool:
        return not self._ended(wait=self.flag_eof)

    def wait(self) -> int | None:
        self._ended(wait=True)
        return self.exitstatus

    def _ended(self, *, wait: bool) -> bool:
        if self.terminated:
            return True
        status = self._child.status(wait=wait)
        if status is not None:
            code = os.waitstatus_to_exitcode(status)
            self.status = status
            self.terminated = True
            self.exitstatus = code if code >= 0 else None
            self.signalstatus = -code if code < 0 else None
        return status is not None


class OnTerminal(pexpect.spawn):  # type: ignore[misc]
    """As `pexpect.spawn` of the command with these arguments."""

    def __init__(self, at: Path, arguments: Sequence[str], **options: Any) -> None:
        self._at, self._arguments = at, arguments
        super().__init__(sys.executable, ["poller"], **options)

    def _spawnpty(
        self, _: Any, *, cwd: str, env: Mapping[str, str], dimensions: tuple[int, int] = (24, 80), **__: Any
    ) -> _Pty:
        ours, its = os.openpty()
        ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", *dimensions, 0, 0))
        child = Child(self._at, self._arguments, (its, its, its), folder=cwd, environ=env, terminal=True)
        os.close(its)
        return _Pty(child, ours)
