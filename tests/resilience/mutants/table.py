"""The mutants: what is changed in which file, which law notices, and why it matters.

`old` must stand in the file exactly once, so that a mutant cannot silently miss the code it is about: whoever changes
that code changes its mutant too.
"""

from __future__ import annotations

from tests.resilience.mutants.mutant import BOTH, BREAKS, ENDLESS, MEDDLED, Edit, Mutant
from tests.resilience.mutants.protocol import PROTOCOL

FURTHER = (
    Mutant(
        "the document begins anew on release",
        (
            Edit(
                "model/transitions.py",
                "return _lease(state, owner_id=None,",
                "return _lease(state, owner_id=None, fencing_token=0,",
            ),
        ),
        "takes the token back|under a lower token",
    ),
    Mutant(
        "heartbeat and commit write beside each other",
        (Edit("lease/tenure.py", "while not self._lock.acquire(timeout=max(self._left(), 0.001)):", "while False:"),),
        "two writes in flight|is unresolved|its tenure is over",
        first=10,
    ),
    Mutant(
        "a taker waits for no margin",
        (Edit("model/timing.py", "return min(5.0, max(2.0, self.ttl / 2))", "return 0.0"),),
        BOTH,
        first=113,
    ),
    Mutant(
        "an owner trusts its lease for as long as a taker waits",
        (Edit("model/timing.py", "return self.ttl - self.grace", "return self.ttl + self.margin"),),
        BOTH,
    ),
    Mutant(
        "released_at counts for ever",
        (
            Edit(
                "model/expiry.py",
                "abs((modified_at - lease.released_at).total_seconds()) <= RELEASE_WINDOW",
                "True",
            ),
        ),
        BOTH,
        MEDDLED,
        first=1749,
    ),
    Mutant(
        "a change is made again on another's tenure",
        (Edit("lease/tenure.py", "redo=transitions.still_held", "redo=lambda held, found: True"),),
        "under the lease of|a commit that had landed|back from row|without a new token",
    ),
    Mutant(
        "a change is made again without the operator's",
        (
            Edit(
                "lease/state_file.py",
                "            base = found\n",
                "            base = replace(found, state=base.state)\n",
            ),
        ),
        "undoes an operator's|loses the record|undoes a reset|takes the token back",
        first=7,
    ),
    Mutant(
        "a resend does not look at the deadline",
        (
            Edit(
                "lease/sending.py",
                "            if sent >= deadline:  # looked at",
                "            if False:  # looked at",
            ),
        ),
        "without knowing its deadline to be ahead",
        first=575,
    ),
    Mutant(
        "an acquire counts no attempt",
        (
            Edit(
                "model/transitions.py",
                "_attempts(state, state.delivery.attempts + 1)",
                "_attempts(state, state.delivery.attempts)",
            ),
        ),
        "without counting the attempt",
    ),
    Mutant(
        "an acquire does not raise the token",
        (
            Edit(
                "model/transitions.py",
                '"fencing_token": state.lease.fencing_token + 1,',
                '"fencing_token": state.lease.fencing_token,',
            ),
        ),
        "without a new token",
    ),
    Mutant(
        "a reset fences nobody",
        (
            Edit(
                "model/transitions.py",
                "_emptied(_lease(moved, fencing_token=state.lease.fencing_token + 1), now)",
                "_emptied(moved, now)",
            ),
        ),
        "resets without fencing|without a new token",
    ),
    Mutant(
        "--break-lease keeps the lease for the operator's own ttl, not the worker's",
        (Edit("admin/editor.py", "return worker if ttl < worker <= LONGEST_TRUSTED else ttl", "return ttl"),),
        BOTH,
        BREAKS,
        first=163,
    ),
    Mutant(
        "a document that is put back is free at once",
        (Edit("admin/recovery.py", "held = operator.keeps_for(start.lease) if keep else 0.0", "held = 0.0"),),
        BOTH,
        MEDDLED,
        first=2999,
    ),
    Mutant(
        "a paused poller goes on",
        (Edit("tick/preflight.py", "    if state.control.paused:\n", "    if False:\n"),),
        "paused or halted poller",
    ),
    Mutant(
        "an expired lease is never taken",
        (Edit("model/expiry.py", "return Availability(free=left <= 0,", "return Availability(free=False,"),),
        "wedged",
    ),
    Mutant(
        "no way is made for an operator's note",
        (
            Edit(
                "lease/tenure.py",
                "            if not self._file.yield_request.is_new():\n                return\n",
                "            return\n",
            ),
        ),
        "was kept out",
        ENDLESS,
        first=107,
    ),
    Mutant(
        "every tenure starts the clock of the looks for a note anew",
        (
            Edit(
                "lease/tenure.py",
                "        self._make_locks()\n        self.lost = ",
                "        self._make_locks()\n"
                "        file.yield_request._looked = file.runtime.monotonic()\n"
                "        self.lost = ",
            ),
        ),
        "was kept out",
        ENDLESS,
        first=107,
    ),
    Mutant(
        "a release that landed late is not stamped anew",
        (
            Edit(
                "lease/state_file.py",
                "return self._stamped(base, WriteResult(state, self._adopt(copy), sent))",
                "return WriteResult(state, self._adopt(copy), sent)",
            ),
        ),
        "that nobody believes",
        first=10,
    ),
    Mutant(
        "the checkpoint passes the row that was looked ahead",
        (
            Edit(
                "tick/rows.py",
                "return self.page.cursors[self.position]",
                "return [*self.page.cursors[1:], self.page.cursors[-1]][self.position]",
            ),
        ),
        r"whose handler did not succeed|is given rows \[.*\] after row",
    ),
    Mutant(
        "a handler that failed is committed",
        (
            Edit(
                "tick/leased.py",
                "                result = CallResult.of_error(reportable(raised))\n",
                "                result = CallResult()\n",
            ),
        ),
        "whose handler did not succeed",
    ),
    Mutant(
        "an idle tick takes the lease",
        (Edit("tick/tick.py", "if turn.is_idle:", "if turn.is_idle and copy is None:"),),
        "found no row and sent|without counting the attempt",
    ),
    Mutant(
        "a deleted document is begun anew",
        (Edit("tick/tick.py", "copy = copy or self.file.read_unless_deleted()", "copy = copy or None"),),
        "begins a deleted document anew",
        MEDDLED,
    ),
    Mutant(
        "the weekly rewrite does not look whether a lease is live",
        (Edit("tick/idle_writes.py", "transitions.WEEK or not lease.free or", "transitions.WEEK or"),),
        f"writes once more what|without counting the attempt|under the lease of|{BOTH}",
        first=15,
    ),
    Mutant(
        "the weekly rewrite moves the checkpoint back to the beginning",
        (
            Edit(
                "model/transitions.py",
                "    return _emptied(state, now)\n\n\ndef may_remember",
                '    return _emptied(state.model_copy(update={"checkpoint": Checkpoint()}), now)\n\n\ndef may_remember',
            ),
        ),
        "that it only writes once more|moves the checkpoint back from|lanes have done rows .* which nobody did",
    ),
    Mutant(
        "an older copy is worked on",
        (
            Edit(
                "lease/state_file.py",
                "if self._highest_token is not None and token < self._highest_token:",
                "if token < 0:",
            ),
        ),
        "under a lower token",
        MEDDLED,
        first=6074,
    ),
    Mutant(
        "a lease on its way back is still believed",
        (Edit("lease/tenure.py", "            self._ending = ends\n", ""),),
        BOTH,
        first=19,
    ),
    Mutant(
        "waiting for the other thread's write past an old deadline is a lost lease",
        (
            Edit(
                "lease/tenure.py",
                "            self._still_held()  # another write may have moved the deadline meanwhile\n",
                '            self._lose("deadline")\n            raise self._gone()\n',
            ),
        ),
        "although its deadline is ahead",
        first=68,
    ),
    Mutant(
        "a denied resend makes room for another write",
        (
            Edit(
                "lease/sending.py",
                "                if not arrived:\n                    raise\n",
                "                raise\n",
            ),
        ),
        "is unresolved",
        range(1500, 4500),  # a denial of the second copy, whose first one had landed, is rare: earlier seeds draw none
        first=2255,
    ),
    Mutant(
        "a document made meanwhile is taken for deleted",
        (
            Edit(
                "lease/state_file.py",
                "        copy = self.read()\n        if copy is None:\n            name = ",
                "        copy = None\n        if copy is None:\n            name = ",
            ),
        ),
        "finds the document corrupt",
        first=52,
    ),
)
"""Others worth distinguishing; some were bugs that the simulation found."""

MUTANTS = (*PROTOCOL, *FURTHER)
