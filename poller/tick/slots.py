"""Where the handler is called: for each of several lanes in a thread of its own, begun with its first batch; for one
on the tick's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from poller.handler.batch import Batch
from poller.ports import Runtime, Task
from poller.tick.dealt_page import Run
from poller.tick.leased import Handled


@dataclass(slots=True)
class Job:
    """A batch that a lane has in hand.

    Attributes:
        handled: what came of it. error: what went wrong beside the handler.
    """

    lane: int
    batch: Batch
    rows: Sequence[Run]
    run: Callable[[], Handled]
    handled: Handled | None = None
    error: BaseException | None = None
    context: Context | None = None

    def call(self) -> None:
        """Call the handler, and keep what came of it. Raises nothing."""
        try:
            self.handled = self.run() if self.context is None else self.context.run(self.run)
        except BaseException as error:  # noqa: BLE001 - raised in the tick's thread
            self.error = error


class Slots:
    """One slot for each lane of a tenure. A context manager: at its end no handler runs in them.

    Attributes:
        running: what the slots have, by lane; the caller takes out what is over. over: jobs that are over, in order.
        signal: set if a job is over, or by `look`.
    """

    def __init__(self, runtime: Runtime, name: str, count: int) -> None:
        self.running: dict[int, Job] = {}
        self.over: deque[Job] = deque()
        self.signal = runtime.event()
        self._runtime = runtime
        self._slots = [_Slot(runtime, f"{name}-{lane}", self._ended) for lane in range(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for slot in self._slots:
            slot.end()
        for slot in self._slots:
            slot.join()

    def start(self, job: Job) -> None:
        """Call the handler beside the caller. What is thrown in here (Ctrl-C) leaves no batch that never ends: either
        none is in hand, or `wake` begins it."""
        job.context = copy_context()
        self._slots[job.lane].begin(job, self.running)

    def call(self, job: Job) -> None:
        """Call the handler here. Raises: what went wrong beside it."""
        job.handled = job.run()
        self.over.append(job)

    def wake(self) -> None:
        """Each slot looks whether it has a batch that it has not begun."""
        for slot in self._slots:
            slot.wake()

    def rearm(self) -> None:
        """What is over from now on sets the signal."""
        self.signal = self._runtime.event()

    def look(self) -> None:
        """For any thread: something was written, or was read."""
        self.signal.set()

    def _ended(self, job: Job) -> None:
        self.over.append(job)
        self.signal.set()


class _Slot:
    """The thread of one lane. `ended`: called in it when a batch is over."""

    def __init__(self, runtime: Runtime, name: str, ended: Callable[[Job], None]) -> None:
        self._runtime = runtime
        self._name = name
        self._ended = ended
        self._task: Task | None = None
        self._next: Job | None = None
        self._over = False
        self._wake = runtime.event()

    def begin(self, job: Job, running: dict[int, Job]) -> None:
        if self._task is None:
            try:
                self._task = self._runtime.spawn(self._work, self._name)
            except RuntimeError:  # no further thread can be started
                job.call()
                running[job.lane] = job
                self._ended(job)
                return
        self._next = job
        running[job.lane] = job
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    def end(self) -> None:
        """Its thread, which has no batch, ends."""
        self._over, self._next = True, None
        self.wake()

    def join(self) -> None:
        if self._task is not None:
            self._task.join()

    def _work(self) -> None:
        while not self._over:
            self._wake.wait()
            self._wake = self._runtime.event()
            job, self._next = self._next, None
            if job is not None:
                job.call()
                self._ended(job)
                job = None  # while it waits it keeps no rows
