"""What boto3 raises, as this library's errors.

`translate` repeats no text of an answer, which may quote the string that was signed, only the status, the service's
error code, and what to do. Codes: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    TokenRetrievalError,
)

from poller.errors import StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.stores.refusals import Service, by_status, no_answer, no_credential, not_the_services, refused

FAILURES = (
    *(ClientError, BotoCoreError, requests.RequestException, OSError),
    *(ValueError, LookupError, AttributeError, TypeError),
)
"""What a call into boto3 raises: its own errors, those of the connection, and others for an answer that is not S3's."""
_CREDENTIALS = (NoCredentialsError, PartialCredentialsError, CredentialRetrievalError, TokenRetrievalError)
_NO_ANSWER = (
    *(requests.RequestException, OSError, IncompleteReadError),
    *(EndpointConnectionError, HTTPClientError),  # of requests for credentials
)
SIGN_IN = (
    "boto3 looks in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in the profile of AWS_PROFILE, and for the role of "
    "the function, task or machine: set one of them."
)
_ROLE = (
    "Allow this identity to take the role that the profile of AWS_PROFILE, or AWS_ROLE_ARN, names, and see whether its "
    "own credentials are current."
)
_ACCESS = (
    "Allow this identity s3:GetObject, s3:PutObject and s3:DeleteObject on the bucket's objects, and s3:ListBucket on "
    "the bucket (without it S3 answers 403 for a document that does not exist)."
)
_CURRENT = "Check whether the credentials that boto3 finds are current and complete, and this machine's clock."
_KMS = "See the KMS key of the bucket's encryption: the service cannot use it."

_REFUSED = {  # a person must end it
    "AccessDenied": _ACCESS,
    "AccountProblem": "See the state of the AWS account in its console.",
    "AllAccessDisabled": "See the state of the bucket in the console.",
    "ExpiredToken": _CURRENT,
    "InvalidAccessKeyId": _CURRENT,
    "InvalidObjectState": "The object is archived: restore it, and exclude state/ from the lifecycle rule that did it.",
    "InvalidToken": _CURRENT,
    "KMS.DisabledException": _KMS,
    "KMS.KMSInvalidStateException": _KMS,
    "KMS.NotFoundException": _KMS,
    "RequestTimeTooSkewed": "Set this machine's clock: the service accepts requests of the last 15 minutes only.",
    "SignatureDoesNotMatch": _CURRENT,
    "TokenRefreshRequired": _CURRENT,
}
STALE = frozenset(
    {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "TokenRefreshRequired"}
)
"""Others may be found by now: boto3 keeps those of variables and files as they were."""
_OTHER_REGION = frozenset({"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"})
_OURS = frozenset({"DeleteObject", "GetBucketVersioning", "GetObject", "ListObjectsV2", "PutObject"})
"""Requests to the bucket. boto3 makes others before, for the credentials of a role."""
NOTHING_WRITTEN = frozenset({"ConditionalRequestConflict"})
"""Another conditional write to the same object was under way. Nothing was written, and the write may be sent again."""
_PASSING = frozenset(
    {"BadDigest", "IncompleteBody", "InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable"}
    | {"SlowDown", "TemporaryRedirect", "XAmzContentSHA256Mismatch"}
    # With a 400: of the bucket's KMS key, and of STS.
    | {"KMS.ThrottlingException", "RequestLimitExceeded", "Throttling", "ThrottlingException"}
)
"""Some name a body that was cut or changed on its way: it was not kept, but an earlier copy may have been."""
_ELSEWHERE = 307
SERVICE = Service(
    whose="an S3 service's",
    address="state.endpoint",
    check="Check state.bucket, state.region and state.endpoint.",
    role=_ACCESS,
    sign_in=SIGN_IN,
)


class BrokenCredentialError(ValueError):
    """A credential has a line break, so that no header can hold it."""


def status_of(error: Exception) -> int:
    """The answer's status; 0 if there was none."""
    return int(_said(error, "ResponseMetadata").get("HTTPStatusCode") or 0)


def code_of(error: Exception) -> str:
    """The service's error code, such as `NoSuchKey`; empty if the answer has none, as of something in between."""
    code = str(_said(error, "Error").get("Code") or "")
    return "" if code.isdigit() else code


def headers_of(error: Exception) -> Mapping[str, str]:
    """The answer's headers, their names in lower case."""
    headers: Mapping[str, str] = _said(error, "ResponseMetadata").get("HTTPHeaders") or {}
    return headers


def tag_of(answer: Mapping[str, Any]) -> str:
    """The ETag of an answer: without a whole one it is not known what was read or written. What something in between
    made weak (`W/`) is the service's own tag all the same, and as a weak one it would match no version.

    Raises: ValueError.
    """
    tag = answer.get("ETag")
    if not isinstance(tag, str) or not tag.endswith('"'):
        raise ValueError("the answer has no ETag")
    return tag.removeprefix("W/")


def _said(error: Exception, part: str) -> Mapping[str, Any]:
    response = getattr(error, "response", None)
    said = response.get(part) if isinstance(error, ClientError) and isinstance(response, dict) else None
    return said if isinstance(said, dict) else {}


def translate(error: Exception, place: str, name: str, bucket: str, *, reading: bool = False) -> StoreError:
    """The error to raise for what boto3 raised. `place`: what `locate` says of the document `name`.

    `reading`: nothing was to be written.
    """
    if isinstance(error, _CREDENTIALS):
        return no_credential(SERVICE, place, name, type(error).__name__)
    if isinstance(error, BrokenCredentialError):
        return StoreDenied(
            f"A credential that boto3 finds has a line break: nothing was sent for {place}.",
            document=name,
            next_step="Remove it from the end of AWS_ACCESS_KEY_ID or AWS_SESSION_TOKEN, or from their file.",
        )
    if isinstance(error, ClientError) and error.operation_name not in _OURS:
        return _no_role(error, place, name)
    if status := status_of(error):
        return _answered(error, status, place, name, bucket, reading=reading)
    if isinstance(error, _NO_ANSWER):
        return no_answer(error, place, name, reading=reading)
    if isinstance(error, BotoCoreError) and "Response" not in type(error).__name__:
        return StoreDenied(
            f"boto3 could not ask for {place} ({type(error).__name__}).",
            document=name,
            next_step="Check state.region and state.endpoint, and what AWS_PROFILE, AWS_REGION and the files in ~/.aws "
            "say.",
        )
    return not_the_services(SERVICE, place, name)


def _answered(error: Exception, status: int, place: str, name: str, bucket: str, *, reading: bool) -> StoreError:
    code = code_of(error)
    said = f"{status} {code}".strip()
    if not reading and (status == 412 or code in {"NoSuchKey", "PreconditionFailed"}):
        return refused(WriteConflict, "", place, name, said)
    if step := _step(error, status, code, bucket):
        return refused(StoreDenied, step, place, name, said)
    if code in NOTHING_WRITTEN:
        return refused(StoreUnavailable, "The service is busy or failing.", place, name, said, sent=False)
    if not code and 300 <= status < 400 and status != _ELSEWHERE:
        return not_the_services(SERVICE, place, name)
    passing = code in _PASSING or status == _ELSEWHERE
    return by_status(SERVICE, 503 if passing else status, place, name, said, known=bool(code), reading=reading)


def _no_role(error: ClientError, place: str, name: str) -> StoreError:
    status, code = status_of(error), code_of(error)
    said = f"{error.operation_name}: {status} {code}".strip()
    if code in _PASSING or status == 429 or status >= 500:
        return StoreUnavailable(
            f"No credential came for {place} ({said}).",
            document=name,
            next_step="The service of credentials is busy or failing.",
            sent=False,
        )
    return StoreDenied(f"No credential is available for {place} ({said}).", document=name, next_step=_ROLE)


def _step(error: Exception, status: int, code: str, bucket: str) -> str | None:
    """What a person must do; None if the refusal passes with time."""
    if code == "NoSuchBucket":
        return f"Correct state.bucket, or create the bucket: aws s3api create-bucket --bucket {bucket}."
    if code in _OTHER_REGION or (status == 301 and "x-amz-bucket-region" in headers_of(error)):
        region = headers_of(error).get("x-amz-bucket-region") or str(_said(error, "Error").get("Region") or "")
        known = region.isascii() and region.replace("-", "").isalnum()
        wanted = f'= "{region}"' if known else "to it"
        return f"The bucket is in another region: set state.region {wanted}."
    if status == 501 or code == "NotImplemented":
        return "The endpoint keeps no conditions (If-Match, If-None-Match), on which leases rest: use another service."
    return _REFUSED.get(code)
