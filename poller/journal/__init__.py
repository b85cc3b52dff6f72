"""What is written beside the state document: trails, logs, and the records of rows that failed.

`audit` is the trail of takeovers, halts and operators' changes; `delivery_log` says which rows were delivered, for
`recheck`; both write through `background`, never in a commit's way. `quarantine` holds rows that failed: their records
are written before the commit that passes them. `configurations` are hints, by which two apps under one name notice
each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poller.doors import door

if TYPE_CHECKING:
    from poller.journal.audit import AuditTrail
    from poller.journal.configurations import Configurations, digest_of
    from poller.journal.delivery_log import DeliveryLog
    from poller.journal.quarantine.record import QuarantineRecord
    from poller.journal.quarantine.records import Entry, Quarantine

__all__ = [
    "AuditTrail",
    "Configurations",
    "DeliveryLog",
    "Entry",
    "Quarantine",
    "QuarantineRecord",
    "digest_of",
]

_HOMES = {
    "AuditTrail": "audit",
    "Configurations": "configurations",
    "DeliveryLog": "delivery_log",
    "Entry": "quarantine.records",
    "Quarantine": "quarantine.records",
    "QuarantineRecord": "quarantine.record",
    "digest_of": "configurations",
}

__getattr__, __dir__ = door(__name__, _HOMES)
