"""The doctor's storage side: the table, and what may be done in it."""

from __future__ import annotations

from azure.core import MatchConditions

from poller import once, tls
from poller.errors import StoreDenied
from poller.model.finding import Finding, error, ok
from poller.stores.azure.errors import FAILURES, code_of, status_of
from poller.stores.azure.transport import seconds
from poller.stores.table.entities import Entities
from poller.stores.table.keys import keys_of

_NO_SUCH_TAG = "W/\"datetime'2000-01-01T00%3A00%3A00.0000000Z'\""
"""No version of any document has it: a request under this condition is never carried out."""


def examine(entities: Entities, name: str) -> list[Finding]:
    """Checks https, the table's existence, and the rights to query and to change it, once per command.
    Changes nothing.

    Raises: StoreUnavailable.
    """
    return [
        *tls.of_address(entities.address),
        *once.ask((entities, "table"), lambda: _table(entities, name), keep=_is_fine),
        *once.ask((entities, "changing"), lambda: _changing(entities, name), keep=_is_fine),
    ]


def _is_fine(found: list[Finding]) -> bool:
    """A refusal names the document."""
    return all(one.severity == "ok" for one in found)


def _table(entities: Entities, name: str) -> list[Finding]:
    where = entities.locate("")
    keys = keys_of(name)
    try:
        entities.client().get_entity(keys.partition, keys.row, select=["RowKey"], **seconds(None))
    except FAILURES as answer:
        if code_of(answer) == "TableNotFound":
            return [ok("table", f"{where} does not exist yet: the first write creates it, if permitted")]
        if not (status_of(answer) == 404 and code_of(answer)):
            raise entities.translated(answer, name, reading=True) from None
    try:
        list(entities.query("PartitionKey eq ''", "RowKey", name=name, page=1))
    except StoreDenied as refused:
        message = "Queries are not permitted: no poller can start for the first time, and no audit trail is kept."
        return [error("listing", f"{message} {refused.message}", refused.next_step)]
    return [ok("table", f"{where} exists")]


def _changing(entities: Entities, name: str) -> list[Finding]:
    """Tried under a condition that is never true: the answer shows whether it would have been permitted."""
    keys = keys_of(name)
    try:
        entities.client().delete_entity(
            keys.partition,
            keys.row,
            etag=_NO_SUCH_TAG,
            match_condition=MatchConditions.IfNotModified,
            **seconds(None),
        )
    except FAILURES as answer:
        if status_of(answer) not in {401, 403}:
            return []
        refused = entities.translated(answer, name)
        return [error("changing", f"Changes are not permitted. {refused.message}", refused.next_step)]
    return []
