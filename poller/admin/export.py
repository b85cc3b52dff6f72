"""`checkpoint export`: a checkpoint on its own, for another place or another day."""

from __future__ import annotations

from poller.admin.wired import WiredPoller, operator_of
from poller.model.checkpoint_file import CheckpointExport, export_of


def export_checkpoint(poller: WiredPoller) -> CheckpointExport:
    """The checkpoint as it stands now. Takes no lease, changes nothing.

    Raises: StoreError where there is no state document, StateCorrupt, StoreUnavailable, StoreDenied.
    """
    operator = operator_of(poller, "export-checkpoint")
    state = operator.look().state
    return export_of(state, app=poller.app_name, now=operator.file.clock.now())
