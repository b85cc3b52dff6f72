"""What each refusal of Azure Storage means, and what to do about it: one table for blobs, tables and queues.

https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes, and each service's own page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.stores.refusals import Service

KEY = "state.connection"
_MOVE = "move it away, so that poller can write its blob there."
_KEY = "the Key Vault of the account's customer-managed key"
_IMMUTABLE = "poller overwrites its blobs: give it a container without one."

_REFUSED = {  # a person must end it
    # The blob:
    "BlobArchived": "The blob is in the archive tier: az storage blob set-tier --tier Hot brings it back within 15 "
    "hours. Exclude the container from the rule that archived it.",
    "BlobImmutableDueToLegalHold": f"A legal hold covers the blob. {_IMMUTABLE}",
    "BlobImmutableDueToPolicy": f"An immutability policy or legal hold covers the blob. {_IMMUTABLE}",
    "BlobUsesCustomerSpecifiedEncryption": "Another program wrote the blob with a key that each request must carry, "
    "and poller sends none: write it again without that key.",
    "InvalidBlobType": f"A blob of another type has this name: {_MOVE}",
    "LeaseIdMissing": "Another program holds a blob lease on it: az storage blob lease break.",
    "PathAlreadyExists": "The account has a hierarchical namespace, and a directory or file is in the way of this "
    f"name: {_MOVE}",
    "ResourceTypeMismatch": f"A directory, or a blob of another type, has this name: {_MOVE}",
    # The account:
    "AccountIsDisabled": "The account is disabled: see it in the portal.",
    "ContainerDisabled": "The service disabled the container: see its account in the portal.",
    "KeyBasedAuthenticationNotPermitted": "The account refuses keys: use an identity (NAME__accountName).",
    "KeyVaultAccessTokenCannotBeAcquired": f"The account's own identity cannot sign in to {_KEY}: see Encryption on "
    "the account's page in the portal.",
    "KeyVaultEncryptionKeyNotFound": f"The key is gone from {_KEY}, disabled or expired: recover or enable it there.",
    "WriteOperationNotSupportedOnSecondary": "This is the account's read-only secondary: use the address without "
    "-secondary.",
    # The SAS token:
    "AuthorizationProtocolMismatch": "The SAS token permits https only: use an https endpoint.",
    "AuthorizationSourceIPMismatch": "The SAS token does not permit this machine's address.",
}
_CONFLICTS = (  # not the version that was named
    "BlobAlreadyExists",
    "BlobOverwritten",
    "ConditionNotMet",
    "EntityAlreadyExists",
    "TargetConditionNotMet",
    "UpdateConditionNotSatisfied",
)
_PASSING = {  # an outage, of which the answer says why, and that nothing was written
    "BlobBeingRehydrated": "The blob is on its way out of the archive tier, which takes up to 15 hours; after that the "
    "poller goes on.",
}
_NOT_ACCEPTED = {
    "InvalidHeaderValue": "If this is Azurite, start it with --skipApiVersionCheck or update it.",
    "InvalidInput": "If this is Azurite, update it.",
}
MEANINGS: Mapping[str, tuple[type[StoreError], str]] = {
    **{code: (StoreDenied, step) for code, step in _REFUSED.items()},
    **dict.fromkeys(_CONFLICTS, (WriteConflict, "")),
    **{code: (StoreUnavailable, step) for code, step in _PASSING.items()},
    **{code: (StoreError, step) for code, step in _NOT_ACCEPTED.items()},
}
"""The error, and its next step, by the service's error code, the same for every caller. For other codes `Advice.access`
and the status decide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice(Service):
    """What differs between the services.

    Attributes:
        sas, resources, services: what a SAS token must permit. tags: True if requests name a version.
    """

    sas: str
    resources: str
    services: str
    tags: bool = True

    def access(self, code: str) -> str | None:
        """The step for a refusal that depends on the credential; None for another code."""
        sas = f"A SAS token needs sp={self.sas}."
        return {
            "AuthenticationFailed": "Check whether the account key or SAS token is current, and this machine's clock.",
            "AuthorizationFailure": "Check the account key, what the SAS token permits, and the account's network "
            "rules.",
            "AuthorizationPermissionMismatch": f"{self.role} {sas}",
            "AuthorizationResourceTypeMismatch": f"The SAS token must permit {self.resources}.",
            "AuthorizationServiceMismatch": f"The SAS token must permit {self.services}.",
            "InsufficientAccountPermissions": f"{self.role} An account that fails over takes writes again afterwards.",
            "InvalidAuthenticationInfo": "Check the credential that state.connection names.",
            "NoAuthenticationInformation": "state.connection holds no key, SAS token or identity.",
            "UnauthorizedBlobOverwrite": sas,
        }.get(code)


BLOBS = Advice(
    whose="a blob service's",
    address=KEY,
    check=f"Check {KEY} and state.container.",
    role="Grant this identity the role 'Storage Blob Data Contributor' on the container or account; "
    "it takes minutes to apply.",
    sas="racwl",
    resources="containers and objects (srt=co)",
    services="the blob service (ss=b)",
)
TABLES = Advice(
    whose="a table service's",
    address=KEY,
    check=f"Check {KEY} and state.table.",
    role="Grant this identity the role 'Storage Table Data Contributor' on the account; it takes minutes to apply.",
    sas="raud",
    resources="containers and objects (srt=co)",
    services="the table service (ss=t)",
)
QUEUES = Advice(
    whose="a queue service's",
    address=KEY,
    check=f"Check {KEY} and functions.queue.",
    role="Grant this identity the role 'Storage Queue Data Contributor' on the account; it takes minutes to apply. A "
    "SAS token must permit queues (ss=bq, sp=raup).",
    sas="raup",
    resources="containers and objects (srt=co)",
    services="queues (ss=bq)",
    tags=False,
)
