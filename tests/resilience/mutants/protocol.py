"""The protocol's own mutants: those of protocol.md, "Faults to inject", each with its line of that list."""

from __future__ import annotations

from tests.resilience.mutants.mutant import BOTH, BREAKS, SLOW, Edit, Mutant

_OWN = "        self._copy = self._beaten = landed.copy\n        self._renewed"

PROTOCOL = (
    Mutant(
        "the deadline of an acquire counts from the answer",
        (
            Edit(
                "lease/tenure.py",
                "        self._deadline = landed.sent + file.timing.tenure",
                "        self._deadline = self._runtime.monotonic() + file.timing.tenure",
            ),
        ),
        BOTH,
        SLOW,
        line="deadline counted from the answer",
    ),
    Mutant(
        "the deadline of a heartbeat counts from the answer",
        (
            Edit(
                "lease/tenure.py",
                "self._deadline = landed.sent + self._file.timing.tenure",
                "self._deadline = self._runtime.monotonic() + self._file.timing.tenure",
            ),
        ),
        BOTH,
        SLOW,
        line="deadline counted from the answer",
    ),
    Mutant(
        "a taker judges by its own wall clock",
        (
            Edit(
                "lease/state_file.py",
                "return Copy(state, found.body, found.tag, found.server_time,",
                "return Copy(state, found.body, found.tag, self.runtime.utcnow(),",
            ),
        ),
        BOTH,
        line="taker using its own wall clock",
    ),
    Mutant(
        "a timeout is taken as applied",
        (
            Edit(
                "lease/sending.py",
                """                self._pause_before_resend(deadline, attempt, error, sent=arrived)
            except StoreError as error:
                if not arrived:""",
                """                return Written(if_tag or "1", None, None)
            except StoreError as error:
                if not arrived:""",
            ),
        ),
        "that never landed|are both believed|is unresolved",
        line="timeout taken as applied",
        first=6,
    ),
    Mutant(
        "a timeout is taken as not applied after a re-read",
        (
            Edit(
                "lease/sending.py",
                """                self._pause_before_resend(deadline, attempt, error, sent=arrived)
            except StoreError as error:
                if not arrived:""",
                """                self._pause_before_resend(deadline, attempt, error, sent=arrived)
                return None
            except StoreError as error:
                if not arrived:""",
            ),
        ),
        "is unresolved",
        line="timeout taken as not applied after a re-read",
        first=6,
    ),
    Mutant(
        "only the newest write id is kept",
        (Edit("model/document.py", "[-WRITE_IDS_KEPT:]", "[-1:]"),),
        "refused a commit that had landed|lease is lost, and it is not",
        line="only the newest write id kept",
        first=227,
    ),
    Mutant(
        "--break-lease releases at once",
        (
            Edit(
                "admin/editor.py",
                "return keep(changed, change, ttl=held, now=now) if held else changed",
                "return changed",
            ),
        ),
        BOTH,
        BREAKS,
        line="`--break-lease` that releases at once",
    ),
    Mutant(
        "the document is deleted on release",
        (
            Edit(
                "lease/tenure.py",
                '                self._over = "released"\n',
                '                self._over = "released"\n                self._file.store.delete(self._file.name)\n',
            ),
        ),
        "takes the token back|under a lower token|finds the document corrupt",
        line="document deleted on release",
    ),
    Mutant(
        "heartbeat and commit each have an ETag of their own",
        (
            Edit(
                "lease/tenure.py",
                "        self._apply(lambda state, now: transitions.renew(state, now=now))",
                "        self._apply(lambda state, now: transitions.renew(state, now=now), beats=True)",
            ),
            Edit(
                "lease/tenure.py",
                "def _apply(self, change: Rewrite, *, ends: bool = False) -> WriteResult:",
                "def _apply(self, change: Rewrite, *, ends: bool = False, beats: bool = False) -> WriteResult:",
            ),
            Edit("lease/tenure.py", "        self._copy = landed.copy\n        self._renewed", _OWN),
            Edit(
                "lease/tenure.py",
                "landed = self._file.write(self._copy, lasting,",
                "landed = self._file.write(self._beaten if beats else self._copy, lasting,",
            ),
            Edit(
                "lease/tenure.py",
                "            self._copy = landed.copy\n            if ends:",
                """            if beats:
                self._beaten = landed.copy
            else:
                self._copy = landed.copy
            if ends:""",
            ),
        ),
        "reports its lease lost, and it is not",
        line="heartbeat and commit with separate ETags",
        first=10,
    ),
)
"""The list of protocol.md; its first line is broken in two places."""
