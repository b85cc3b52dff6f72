"""One bucket: its client, its objects, its listing, and the translation of boto3's errors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from poller import forks
from poller.errors import ConfigError, StoreError, StoreUnavailable
from poller.ports import Timeout
from poller.stores.refusals import not_the_services
from poller.stores.s3.errors import FAILURES, SERVICE, STALE, code_of, translate
from poller.stores.s3.transport import OneRequest

PAGE = 1000
"""Objects in one answer to a LIST: the service's own limit."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]\Z")
_DIRECTORY = "--x-s3"
_REGION = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+\Z|auto\Z")
_LIMITS: dict[str, Any] = {"connect_timeout": 5, "read_timeout": 10, "retries": {"total_max_attempts": 2}}
"""The limits of each request for credentials (to STS, for a role): those of boto3 would hold a tick for minutes."""

_models: list[Any] = []
"""What has read botocore's models: one for all sessions of a process, as they are 2 MB of JSON."""


class ListedObject(NamedTuple):
    """An object in a listing. `tag`: as the service lists it; `modified_at`: as boto3 gives it."""

    key: str
    tag: str
    modified_at: object


def check_bucket(bucket: str) -> str:
    """The bucket's name, if it is valid and of a kind that keeps state.

    Raises: ConfigError. Rule: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
    """
    if _BUCKET.match(bucket) is None:
        raise ConfigError(
            f"{bucket!r} cannot be the name of a bucket.",
            key="state.bucket",
            next_step="Use 3 to 63 lower-case letters, digits, dots and hyphens, such as shop-poller-state.",
        )
    if bucket.endswith(_DIRECTORY):
        raise ConfigError(
            f"{bucket} is a directory bucket, whose listings have no order.",
            key="state.bucket",
            next_step="Use a general purpose bucket.",
        )
    return bucket


def check_region(region: str | None) -> str | None:
    """The region, if it is written as one. Raises: ConfigError."""
    if region is not None and _REGION.match(region) is None:
        raise ConfigError(
            f"{region!r} cannot be a region.",
            key="state.region",
            next_step="Write it as eu-central-1, or leave it out.",
        )
    return region


def check_endpoint(endpoint: str | None) -> str | None:
    """The endpoint without a slash at its end, if it is an http or https address without a user.

    Raises: ConfigError, which does not repeat it.
    """
    if endpoint is None:
        return None
    try:
        parts = urlsplit(endpoint)
        _ = parts.port  # raises ValueError where it is not a number
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname or "@" in parts.netloc or parts.query:
        raise ConfigError(
            "is not the https address of a service without a user, a password or a query.",
            key="state.endpoint",
            next_step="Write it as https://host, and give credentials as boto3 finds them (AWS_ACCESS_KEY_ID, ...).",
        )
    return endpoint.rstrip("/")


class Bucket:
    """A bucket; safe to use from several threads. It connects, and looks for credentials, on first use.

    Args:
        name: of the bucket. region: None for what boto3 finds. endpoint: None for AWS's own.
    """

    def __init__(self, name: str, region: str | None, endpoint: str | None) -> None:
        self.name = check_bucket(name)
        self._region = check_region(region)
        self.endpoint = check_endpoint(endpoint)
        self._reset_after_fork()
        forks.in_child(self._reset_after_fork)

    def _reset_after_fork(self) -> None:
        """In a child process too, which forgets the parent's connections."""
        self._lock = Lock()
        self._made: tuple[Any, OneRequest] | None = None

    def call(self, operation: str, timeout: Timeout | None, **arguments: Any) -> dict[str, Any]:
        """What the service answers to one request. `operation`: the name of boto3's method, such as `get_object`.

        Raises: what boto3 raises (`FAILURES`).
        """
        client, sender = self._client()
        with sender.within(timeout):
            answer: dict[str, Any] = getattr(client, operation)(Bucket=self.name, **arguments)
            if "Body" in answer:
                answer["Body"] = answer["Body"].read()
        return answer

    def objects(self, prefix: str, timeout: Timeout | None = None, *, page: int = PAGE) -> Iterator[ListedObject]:
        """The objects whose keys begin with `prefix`, in order, by one LIST for each `page`.

        Raises: StoreUnavailable, StoreDenied.
        """
        return self.objects_after(prefix, "", timeout, page=page)

    def objects_after(
        self, prefix: str, after: str, timeout: Timeout | None = None, *, page: int = PAGE
    ) -> Iterator[ListedObject]:
        """The same, of keys that come after another."""
        more: dict[str, Any] = {"StartAfter": after} if after else {}
        while True:
            try:
                answer = self.call("list_objects_v2", timeout, Prefix=prefix, MaxKeys=page, **more)
            except FAILURES as error:
                raise self.translated(error, prefix, reading=True) from None
            if answer.get("Name") is None:
                raise self.no_s3_service(prefix)
            for one in answer.get("Contents", ()):
                yield ListedObject(str(one.get("Key")), str(one.get("ETag")), one.get("LastModified"))
            if not answer.get("IsTruncated"):
                return
            if not answer.get("NextContinuationToken"):
                raise self.no_s3_service(prefix)
            more = {"ContinuationToken": answer["NextContinuationToken"]}

    def locate(self, name: str) -> str:
        """Where the object `name` is; the bucket itself when it is empty."""
        return f"{f'object {name} in ' if name else ''}bucket {self.name} of {self.endpoint or 'Amazon S3'}"

    def translated(self, error: Exception, name: str, *, reading: bool = False) -> StoreError:
        """The error to raise, `from None`: boto3's texts may quote what was signed."""
        found = translate(error, self.locate(name), name, self.name, reading=reading)
        if "redential" in type(error).__name__ or code_of(error) in STALE:  # the next call looks for credentials again
            self.close()
        return found

    def no_s3_service(self, name: str) -> StoreUnavailable:
        """The error for an answer that is not S3's."""
        return not_the_services(SERVICE, self.locate(name), name)

    def close(self) -> None:
        """Close connections."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made[0].close()
            made[1].close()

    def _client(self) -> tuple[Any, OneRequest]:
        with self._lock:
            if self._made is None:
                self._made = self._connect()
            return self._made

    def _connect(self) -> tuple[Any, OneRequest]:
        session = boto3.session.Session(region_name=self._region)
        core: Any = session._session  # botocore's; boto3 hands these two on nowhere
        core.set_default_client_config(Config(**_LIMITS))
        if not _models:
            _models.append(core.get_component("data_loader"))
        core.register_component("data_loader", _models[0])
        sender = OneRequest(core.get_config_variable("ca_bundle"))
        client = session.client("s3", endpoint_url=self.endpoint, config=_config(self.endpoint))
        client.meta.events.register("before-send.s3", sender)
        client.meta.events.register_last("before-parameter-build.s3", _stay_in_the_region)
        return client, sender


def _config(endpoint: str | None) -> Config:
    """The client's configuration: nothing is sent twice, and what is sent is signed with its body."""
    return Config(
        signature_version="s3v4",
        retries={"total_max_attempts": 1, "mode": "standard"},  # resending is the caller's (protocol 2)
        s3={"addressing_style": "path" if endpoint else "auto", "payload_signing_enabled": True},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        ignore_configured_endpoint_urls=True,  # only those of `state.endpoint` are tried and named
    )


def _stay_in_the_region(context: Mapping[str, Any], **_: Any) -> None:
    """boto3 looks a bucket's region up and sends the request again, each time; an error that names the region is
    better."""
    redirect = context.get("s3_redirect")
    if isinstance(redirect, dict):
        redirect["redirected"] = True
