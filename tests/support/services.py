"""What all services share: free ports, child processes that never outlive us, the rule on missing servers."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TOOLS = REPOSITORY / ".tools"
_PREFIX = "poller-test-"
_PR_SET_PDEATHSIG = 1
_MEMORY = Path("/dev/shm")
_ENOUGH = 8 << 30
_PORTS = range(20_000, 32_000)
"""Below those that systems give to outgoing connections: no client sits where a server is about to listen."""
_reserved: list[socket.socket] = []
_libc = ctypes.PyDLL(None) if sys.platform == "linux" else None


class Unavailable(Exception):
    """A service is not available on this machine; the text says why and what would help."""


class OptionalService(Unavailable):
    """So is one that CI may lack too: MySQL proper, which Debian stable does not ship."""


def unavailable(missing: Unavailable | str) -> NoReturn:
    """Skip the test with the reason, or fail it where ``CI=true``: there every server but an `OptionalService` must be
    present."""
    reason = str(missing)
    if os.environ.get("CI") == "true" and not isinstance(missing, OptionalService):
        pytest.fail(f"CI=true, and a service is missing: {reason}")
    pytest.skip(reason)


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on, and that no other test process is given while this one lives.

    A UDP socket of the same number, kept open, is what the others see.
    """
    for port in _candidates():
        reservation = socket.socket(type=socket.SOCK_DGRAM)
        try:
            reservation.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
            continue
        _reserved.append(reservation)
        return port
    raise Unavailable(f"no free port from {_PORTS[0]} to {_PORTS[-1]}")


def _candidates() -> list[int]:
    return random.SystemRandom().sample(_PORTS, len(_PORTS))


def listening(port: int) -> bool:
    """Whether somebody accepts connections on that port of 127.0.0.1."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def wait_until(condition: Callable[[], object], what: str = "what was waited for", *, seconds: float = 30) -> None:
    """Wait until `condition()` holds, looking every 20 ms; a `TimeoutError` says `what` it was."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.02)


def private_directory(user: str | None = None) -> Path:
    """A new directory that is removed at exit; `user` owns it, where given.

    Its name carries our process id, so that the next session can remove what a killed one left behind.
    """
    _sweep()
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    if user is not None:
        shutil.chown(directory, user)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def unprivileged(*candidates: str) -> str | None:
    """The first of these users that exists when we are root (servers refuse to run as root); else None."""
    if os.geteuid() != 0:
        return None
    for name in (*candidates, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise Unavailable(f"running as root, and none of the users {', '.join(candidates)}, nobody exists")


def run(argv: Sequence[str | Path], *, user: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a set-up program to its end and return its output; `Unavailable` with that output when it fails."""
    uid, gid, groups = _ids(user)
    done = subprocess.run(
        [str(part) for part in argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd="/",
        env=dict(env) if env is not None else None,
        timeout=120,
        user=uid,
        group=gid,
        extra_groups=groups,
    )
    if done.returncode != 0:
        raise Unavailable(f"{argv[0]} failed with exit code {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout


def keep_files_in_memory() -> None:
    """Have all temporary files of this process and its children made in memory, where the system has enough of it: what
    servers and SQLite write is then on no disk, and nobody waits for one."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.R_OK | os.W_OK | os.X_OK):
        return
    has = os.statvfs(_MEMORY)
    if has.f_bavail * has.f_frsize >= _ENOUGH and not has.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None


class Service:
    """A server in a child process. It dies with us: at exit, and on Linux also when we are killed.

    Start it from a thread that lives as long as it shall: the kernel watches the thread that started it.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        user: str | None = None,
        env: Mapping[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.name = name
        self.argv = [str(part) for part in argv]
        self.log = log
        self.user = user
        self.env = dict(env) if env is not None else None
        self.stop_signal = stop_signal
        self.death_signal = death_signal
        self.process: subprocess.Popen[bytes] | None = None
        atexit.register(self.kill)

    @property
    def running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self, ready: Callable[[], bool], *, seconds: float = 60) -> None:
        """Start the process and wait until `ready()`; `Unavailable`, with the log's end, when it is not."""
        uid, gid, groups = _ids(self.user)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd="/",
                env=self.env,
                preexec_fn=self._tie_to_parent(),
                start_new_session=True,
                user=uid,
                group=gid,
                extra_groups=groups,
            )
        try:
            wait_until(lambda: ready() or not self.running, f"{self.name} is up", seconds=seconds)
        except TimeoutError:
            self.kill()
        if not self.running:
            self.process = None
            raise Unavailable(f"{self.name} did not come up; its log ends:\n{self._log_end()}")

    def stop(self) -> None:
        """End the process in its own orderly way; kill it when that takes longer than 20 s."""
        if self.process is None:
            return
        if self.running:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()
        self.process = None

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        if self.process is None:
            return
        self.process.kill()
        self.process.wait()
        self.process = None

    def suspend(self) -> None:
        """SIGSTOP: the server accepts connections (the kernel does) and answers nothing."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)

    def _tie_to_parent(self) -> Callable[[], None] | None:
        if _libc is None:
            return None
        prctl, number = _libc.prctl, int(self.death_signal)
        return lambda: prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)

    def _log_end(self) -> str:
        with contextlib.suppress(OSError):
            return self.log.read_text(errors="replace")[-2000:]
        return "(no log)"


def _ids(user: str | None) -> tuple[int | None, int | None, list[int] | None]:
    """User, group and further groups to change to, as `subprocess.Popen` takes them."""
    if user is None:
        return None, None, None
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid, []


def _sweep() -> None:
    """Remove the directories of test processes that no longer run."""
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = left.name.removeprefix(_PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists() and Path("/proc/self").exists():
            shutil.rmtree(left, ignore_errors=True)
