"""What to do about a refusal of the table service.

https://learn.microsoft.com/rest/api/storageservices/table-service-error-codes
"""

from __future__ import annotations

from poller.stores.azure.errors import Advice, denied

_ROLE = "Grant this identity the role 'Storage Table Data Contributor' on the account; it takes minutes to apply."

TABLES = Advice(
    service="table service",
    role=_ROLE,
    place="state.table",
    denied=denied(_ROLE, sas="raud", resources="containers and objects (srt=co)", services="the table service (ss=t)"),
    conflicts=frozenset({"EntityAlreadyExists", "UpdateConditionNotSatisfied", "ConditionNotMet"}),
    final=frozenset(),
    steps={
        "": "The answer is not a table service's: check state.connection and any proxy on the way.",
        "InvalidHeaderValue": "If this is Azurite, start it with --skipApiVersionCheck or update it.",
        "InvalidInput": "If this is Azurite, update it.",
    },
)

TOO_LARGE = frozenset({"EntityTooLarge", "PropertyValueTooLarge", "RequestBodyTooLarge"})
"""Error codes of a document that the service does not hold."""
