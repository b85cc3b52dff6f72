"""One table: its client, its creation, its queries, and the translation of the SDK's errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError
from azure.data.tables import TableClient, TableEntity

from poller.errors import ConfigError, StoreError, StoreUnavailable
from poller.ports import Timeout
from poller.stores.azure.account import KEY
from poller.stores.azure.advice import TABLES
from poller.stores.azure.client import AccountClient, ServiceAccess
from poller.stores.azure.errors import FAILURES, code_of, not_created, translate
from poller.stores.azure.transport import seconds
from poller.stores.refusals import not_the_services
from poller.stores.table.bodies import too_large

PAGE = 1000
"""Entities in one answer to a query: the service's own limit."""
_TABLE = re.compile(r"(?!tables\Z)[a-z][a-z0-9]{2,62}\Z", re.IGNORECASE)
_TOO_LARGE = frozenset({"EntityTooLarge", "PropertyValueTooLarge", "RequestBodyTooLarge"})
"""Error codes of a document that the service does not hold."""
_COSMOS = (".cosmos.azure.com", ".cosmosdb.azure.com")


def check_table(table: str) -> str:
    """The table's name, if it is valid.

    Raises: ConfigError. Rule: https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
    """
    if _TABLE.match(table) is None:
        raise ConfigError(
            f"{table!r} cannot be the name of a table.",
            key="state.table",
            next_step="Use 3 to 63 letters and digits that begin with a letter, such as dbstate.",
        )
    return table


class Entities(AccountClient[TableClient]):
    """A table that may not exist yet; safe to use from several threads.

    Raises, from the constructor: ConfigError (no table's name, an account of Azure Cosmos DB; as `AccountClient`).
    """

    def __init__(self, access: ServiceAccess, name: str) -> None:
        super().__init__(access, TableClient, check_table(name))
        if (urlsplit(self.address).hostname or "").endswith(_COSMOS):
            raise ConfigError(
                f"{KEY} leads to Azure Cosmos DB, whose tables have other tags and times.",
                key=KEY,
                next_step="Use a storage account: https://ACCOUNT.table.core.windows.net.",
            )

    def locate(self, name: str) -> str:
        """Where the document `name` is; the table itself when it is empty."""
        document = f"document {name} in " if name else ""
        return f"{document}table {self.name} of {self.address}"

    def query(
        self, query: str, *select: str, name: str, page: int | None = None, timeout: Timeout | None = None
    ) -> Iterator[TableEntity]:
        """The entities that a filter selects, in the order of their keys, by one GET for each `page` (`PAGE`); none
        where there is no table. `name`: the document or prefix that is looked for.

        Raises: StoreUnavailable, StoreDenied.
        """
        try:
            yield from self.client().query_entities(
                query, results_per_page=page or PAGE, select=list(select) or None, **seconds(timeout)
            )
        except FAILURES as error:
            if code_of(error) == "TableNotFound":
                return
            raise self.translated(error, name, reading=True) from None

    def insert(self, entity: dict[str, Any], timeout: Timeout | None) -> dict[str, Any]:
        """Create an entity by one POST; where there is no table, create it and send the POST again.

        Raises: what the SDK raises (`FAILURES`), and as `create`.
        """
        try:
            return self._insert(entity, timeout)
        except FAILURES as error:
            if code_of(error) != "TableNotFound":
                raise
        self.create(timeout)
        return self._insert(entity, timeout)

    def _insert(self, entity: dict[str, Any], timeout: Timeout | None) -> dict[str, Any]:
        answer: dict[str, Any] = self.client().create_entity(
            entity, response_preference="return-no-content", **seconds(timeout)
        )
        return answer

    def create(self, timeout: Timeout | None) -> None:
        """Create the table, unless another did so meanwhile.

        Raises: StoreUnavailable, StoreDenied.
        """
        try:
            self.client().create_table(**seconds(timeout))
        except FAILURES as error:
            if code_of(error) == "TableAlreadyExists":
                return
            raise not_created(self.translated(error, ""), "table", self.name, error) from None

    def translated(self, error: Exception, name: str, *, creating: bool = False, reading: bool = False) -> StoreError:
        """The error to raise, `from None`: the SDK's texts may hold a signed address."""
        if not isinstance(error, AzureError):
            return self.no_table_service(name)
        if code_of(error) in _TOO_LARGE:
            return too_large(self.locate(name), name, code_of(error))
        return translate(error, self.locate(name), name, TABLES, creating=creating, reading=reading)

    def no_table_service(self, name: str) -> StoreUnavailable:
        """The error for an answer that is not a table service's."""
        return not_the_services(TABLES, self.locate(name), name)
