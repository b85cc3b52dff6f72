"""The doctor's storage side: the account, the container, and what may be done in it."""

from __future__ import annotations

from azure.core import MatchConditions

from poller import once, tls
from poller.errors import StoreDenied
from poller.model.finding import Finding, error, ok
from poller.stores.cosmos.container import CosmosContainer
from poller.stores.cosmos.errors import FAILURES, status_of
from poller.stores.cosmos.items import app_of, id_of

_NO_SUCH_TAG = '"00000000-0000-0000-0000-000000000000"'
"""No version of any document has it: a request under this condition is never carried out."""


def examine(container: CosmosContainer, name: str) -> list[Finding]:
    """Checks https, that the account has one write region, the container's existence, and the rights to query and to
    change it, once per command. Changes nothing.

    Raises: StoreUnavailable.
    """
    return [
        *tls.of_address(container.address, step="Write https:// in AccountEndpoint."),
        *once.ask((container, "container"), lambda: _container(container, name), keep=_is_fine),
        *once.ask((container, "changing"), lambda: _changing(container, name), keep=_is_fine),
    ]


def _is_fine(found: list[Finding]) -> bool:
    """A refusal names the document."""
    return all(one.severity == "ok" for one in found)


def _container(container: CosmosContainer, name: str) -> list[Finding]:
    app = app_of(name)
    text = "SELECT c.id FROM c WHERE c.app = @app AND c.id = @id"
    try:
        list(container.query(text, {"app": app, "id": id_of(name)}, app, name=name, page=1))
    except StoreDenied as refused:
        return [error("listing", f"Queries are not permitted. {refused.message}", refused.next_step)]
    return [ok("container", f"{container.locate('')} exists, in an account with one write region")]


def _changing(container: CosmosContainer, name: str) -> list[Finding]:
    """Tried under a condition that is never true: the answer shows whether it would have been permitted."""
    same = {"etag": _NO_SUCH_TAG, "match_condition": MatchConditions.IfNotModified}
    try:
        container.ask(name, lambda made, options: made.delete_item(id_of(name), app_of(name), **same, **options), None)
    except StoreDenied:
        return []  # said already
    except FAILURES as answer:
        if status_of(answer) not in {401, 403}:
            return []
        refused = container.translated(answer, name)
        return [error("changing", f"Changes are not permitted. {refused.message}", refused.next_step)]
    return []
