"""What to do about a refusal of the blob service.

https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes
"""

from __future__ import annotations

from poller.stores.azure.errors import Advice, denied

_ROLE = (
    "Grant this identity the role 'Storage Blob Data Contributor' on the container or account; "
    "it takes minutes to apply."
)

BLOBS = Advice(
    service="blob service",
    role=_ROLE,
    place="state.container",
    denied={
        **denied(_ROLE, sas="racwl", resources="containers and objects (srt=co)", services="the blob service (ss=b)"),
        "BlobArchived": "The blob is in the archive tier: rehydrate it.",
        "BlobImmutableDueToPolicy": "An immutability policy or legal hold covers the container: state needs one "
        "without.",
        "LeaseIdMissing": "Another program holds a blob lease on it: az storage blob lease break.",
        "ContainerDisabled": "The container was disabled by the service: see its account in the portal.",
    },
    conflicts=frozenset({"BlobAlreadyExists", "ConditionNotMet", "TargetConditionNotMet", "BlobOverwritten"}),
    final=frozenset({"InvalidBlobType"}),
    steps={
        "": "The answer is not a blob service's: check state.connection and any proxy on the way.",
        "InvalidHeaderValue": "If this is Azurite, start it with --skipApiVersionCheck or update it.",
        "InvalidBlobType": "A blob of another type has this name: move it away.",
    },
)
