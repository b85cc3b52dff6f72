"""What the S3 store makes of answers and settings: each is one request, one error, and no secret."""

from __future__ import annotations

import gzip
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from poller.config import StateOptions
from poller.errors import ConfigError, StoreDenied, StoreError, StoreUnavailable, WriteConflict
from poller.ports import Found, Missing, Timeout, Unchanged
from poller.stores import open_store
from tests.contract.stores.canned import Canned, answer
from tests.support.moto import ENVIRON, REGION, Moto

pytest.importorskip("boto3", reason="needs the extra s3")

from poller.stores import S3Store

NAME, OTHER = "state/shop/orders.json", "state/shop/refunds.json"
TAG = '"9bb58f26192e4ba00f01e2e7b136bbd8"'
QUICK = Timeout(connect=0.3, read=0.3)
SECRETS = ("c2VjcmV0LWtleQ", "c2Vzc2lvbi10b2tlbg", "SIGNATURE")

Ask = Callable[..., object]


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**ENVIRON, "AWS_SESSION_TOKEN": SECRETS[1]}.items():
        monkeypatch.setenv(name, value)


def read(store: S3Store, timeout: Timeout | None = None) -> object:
    return store.read(NAME, timeout=timeout)


def create(store: S3Store, timeout: Timeout | None = None) -> object:
    return store.write(NAME, b"{}", if_tag=None, timeout=timeout)


def replace(store: S3Store, timeout: Timeout | None = None) -> object:
    return store.write(NAME, b"{}", if_tag=TAG, timeout=timeout)


def remove(store: S3Store, timeout: Timeout | None = None) -> None:
    store.remove(NAME, if_tag=TAG, timeout=timeout)


def prepared(given: Canned) -> S3Store:
    made = S3Store("shop-state", region=REGION, endpoint=f"http://127.0.0.1:{given.port}")
    made._tried = True  # what the service makes of conditions is not asked here
    return made


@pytest.mark.parametrize(
    ("status", "code", "ask", "kind"),
    [
        (503, "SlowDown", replace, StoreUnavailable),
        (500, "InternalError", create, StoreUnavailable),
        (400, "RequestTimeout", replace, StoreUnavailable),
        (409, "ConditionalRequestConflict", replace, StoreUnavailable),
        (409, "OperationAborted", create, StoreUnavailable),
        (307, "TemporaryRedirect", replace, StoreUnavailable),
        (404, "", read, StoreUnavailable),
        (404, "", replace, StoreUnavailable),
        (404, "NoSuchKey", replace, WriteConflict),
        (404, "NoSuchKey", remove, WriteConflict),
        (412, "PreconditionFailed", replace, WriteConflict),
        (412, "PreconditionFailed", create, WriteConflict),
        (404, "NoSuchBucket", read, StoreDenied),
        (404, "NoSuchBucket", create, StoreDenied),
        (403, "AccessDenied", read, StoreDenied),
        (403, "SignatureDoesNotMatch", replace, StoreDenied),
        (403, "InvalidObjectState", read, StoreDenied),
        (400, "ExpiredToken", replace, StoreDenied),
        (400, "KMS.DisabledException", replace, StoreDenied),
        (501, "NotImplemented", replace, StoreDenied),
        (400, "EntityTooLarge", replace, StoreError),
        (200, "", replace, StoreUnavailable),  # without an ETag it is unknown what was written
        (200, "", read, StoreUnavailable),
    ],
)
def test_every_answer_of_s3_is_one_request_and_one_error(
    status: int, code: str, ask: Ask, kind: type[StoreError]
) -> None:
    with Canned(answer(status, code=code)) as given:
        store = prepared(given)
        with pytest.raises(StoreError) as raised:
            ask(store)
        store.close()
    assert type(raised.value) is kind
    assert len(given.asked) == 1
    assert not any(secret in f"{raised.value!r}{raised.value}" for secret in SECRETS)
    assert raised.value.__cause__ is None


def append(store: S3Store, timeout: Timeout | None = None) -> None:
    store._log._newest["audit/shop/orders.jsonl"] = 5
    store.append("audit/shop/orders.jsonl", "{}", timeout=timeout)


@pytest.mark.parametrize("ask", [read, create, replace, remove, append, lambda store: list(store.names("state/"))])
@pytest.mark.parametrize(
    "said",
    [
        answer(200),
        answer(200, body=b"<html><body>Sign in</body></html>"),
        answer(302, Location="http://127.0.0.1:1/login"),
        answer(308, Location="http://127.0.0.1:1/login"),
        answer(304),
    ],
    ids=["200", "page", "302", "308", "304"],
)
def test_a_success_of_something_in_between_is_none(ask: Ask, said: bytes) -> None:
    """A line would be lost, a note left behind."""
    with Canned(said) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable):
            ask(store)
        store.close()
    assert len(given.asked) == 1


@pytest.mark.parametrize(("status", "code"), [(404, "NoSuchKey"), (412, "PreconditionFailed")])
def test_a_listing_has_no_conflict(status: int, code: str) -> None:
    with Canned(answer(status, code=code)) as given:
        store = prepared(given)
        with pytest.raises(StoreError) as raised:
            list(store.names("state/"))
        store.close()
    assert not isinstance(raised.value, WriteConflict)


@pytest.mark.parametrize(
    "code", ["BadDigest", "IncompleteBody", "KMS.ThrottlingException", "ThrottlingException", "Throttling"]
)
def test_a_400_that_passes_with_time_is_unavailable(code: str) -> None:
    with Canned(answer(400, code=code)) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable) as raised:
            replace(store)
        store.close()
    assert raised.value.sent


def test_a_document_that_a_proxy_compressed_is_an_outage() -> None:
    body = gzip.compress(b"{}" * 500)
    with Canned(answer(200, body=body, ETag=TAG, Content_Encoding="gzip")) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable):
            read(store)
        store.close()


def test_a_tag_that_a_proxy_made_weak_is_the_services_own() -> None:
    weak = f"W/{TAG}"
    with Canned(answer(200, body=b"{}", ETag=weak), answer(200, ETag=weak), answer(204)) as given:
        store = prepared(given)
        found = read(store)
        assert isinstance(found, Found)
        written = store.write(NAME, b"{}", if_tag=found.tag)
        store.remove(NAME, if_tag=written.tag)
        store.close()
    assert found.tag == written.tag == TAG


def test_only_the_configured_endpoint_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """boto3 takes another from the environment: whether it keeps conditions would not be tried."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    store = S3Store("shop-state", region=REGION)
    client, _ = store._bucket._client()
    assert client.meta.endpoint_url.endswith(".amazonaws.com")
    store.close()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(403, "AccessDenied", StoreDenied), (400, "Throttling", StoreUnavailable), (0, "", StoreUnavailable)],
)
def test_a_role_that_is_not_given_is_no_refusal_of_the_bucket(
    status: int, code: str, kind: type[StoreError], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(
        "[profile shop]\nrole_arn = arn:aws:iam::123456789012:role/poller\nsource_profile = base\n"
        f"[profile base]\naws_access_key_id = AKIATEST\naws_secret_access_key = {SECRETS[0]}\n"
    )
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_PROFILE", "shop")
    body = f"<ErrorResponse><Error><Code>{code}</Code><Message>SIGNATURE</Message></Error></ErrorResponse>".encode()
    with Canned(answer(status, body=body)) as given:
        address = f"http://127.0.0.1:{given.port if status else 1}"
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", address)
        store = S3Store("shop-state", region=REGION, endpoint=f"http://127.0.0.1:{given.port}")
        store._tried = True
        with pytest.raises(StoreError) as raised:
            replace(store)
        store.close()
    assert type(raised.value) is kind
    assert "s3:GetObject" not in str(raised.value)
    assert not isinstance(raised.value, StoreUnavailable) or not raised.value.sent
    assert not any(secret in f"{raised.value!r}{raised.value}" for secret in SECRETS)


def test_a_folder_that_a_console_made_is_no_name(s3: Moto) -> None:
    bucket = s3.new_bucket()
    store = S3Store(bucket, region=REGION, endpoint=s3.endpoint)
    store.write(NAME, b"{}", if_tag=None)
    s3.client().put_object(Bucket=bucket, Key="state/shop/", Body=b"")
    assert list(store.names("state/shop/")) == [NAME]
    store.close()


@pytest.mark.parametrize("ask", [read, create, replace, remove])
def test_silence_of_s3_is_one_request_and_unavailable(ask: Ask) -> None:
    with Canned(None) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable):
            ask(store, QUICK)
        store.close()
    assert len(given.asked) == 1


@pytest.mark.parametrize("code", ["PermanentRedirect", "AuthorizationHeaderMalformed"])
def test_a_bucket_of_another_region_says_which(code: str) -> None:
    with Canned(answer(301 if code.startswith("P") else 400, code=code, x_amz_bucket_region="eu-west-3")) as given:
        store = prepared(given)
        with pytest.raises(StoreDenied, match=r'state\.region = "eu-west-3"'):
            read(store)
        store.close()
    assert len(given.asked) == 1


def test_an_unknown_bucket_names_the_key_and_the_command(s3: Moto) -> None:
    store = S3Store("no-such-bucket", region=REGION, endpoint=s3.endpoint)
    for ask in (read, create, lambda made: list(made.names("state/")), lambda made: made.append("audit/a.jsonl", "x")):
        with pytest.raises(StoreDenied, match=r"state\.bucket.*aws s3api create-bucket --bucket no-such-bucket"):
            ask(store)
    store.close()


def test_without_credentials_it_says_where_they_are_looked_for(s3: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    store = S3Store(s3.new_bucket(), region=REGION, endpoint=s3.endpoint)
    with pytest.raises(StoreDenied, match="AWS_ACCESS_KEY_ID"):
        read(store)
    for name, value in ENVIRON.items():  # the next call looks again
        monkeypatch.setenv(name, value)
    assert isinstance(read(store), Missing)
    store.close()


@pytest.mark.parametrize("variable", ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"])
def test_a_credential_with_a_line_break_is_a_matter_for_a_person(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "SIGNATURE\n")
    with Canned(answer(404, code="NoSuchKey")) as given:
        store = prepared(given)
        with pytest.raises(StoreDenied, match=f"line break.*{variable}") as refused:
            read(store)
        store.close()
    assert given.asked == []
    assert "SIGNATURE" not in str(refused.value)


@pytest.mark.parametrize("code", ["ExpiredToken", "InvalidAccessKeyId"])
def test_after_a_refused_credential_the_next_call_looks_again(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Canned(answer(400, code=code)) as given:
        store = prepared(given)
        with pytest.raises(StoreDenied):
            read(store)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIARENEWED")
        client, _ = store._bucket._client()
        assert client._request_signer._credentials.access_key == "AKIARENEWED"
        store.close()


def test_a_listing_that_breaks_off_is_none() -> None:
    page = (
        b'<?xml version="1.0"?><ListBucketResult><Name>shop-state</Name><IsTruncated>true</IsTruncated>'
        b"<Contents><Key>state/shop/a.json</Key><ETag>&quot;1&quot;</ETag></Contents></ListBucketResult>"
    )
    with Canned(answer(200, body=page)) as given:
        store = prepared(given)
        with pytest.raises(StoreUnavailable):
            list(store.names("state/"))
        store.close()


def test_an_unknown_profile_is_refused_by_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobodys")
    with pytest.raises(StoreDenied, match=r"ProfileNotFound.*AWS_PROFILE"):
        read(S3Store("shop-state"))


@pytest.mark.guarantee(
    "Hostile and broken input",
    "In a bucket of S3 no two versions of a document share a tag, and a service that ignores conditions keeps no state",
)
@pytest.mark.parametrize("ignored", ["If-Match", "If-None-Match", ""])
def test_a_service_without_conditions_is_refused(ignored: str) -> None:
    refused, taken = answer(412, code="PreconditionFailed"), answer(200, ETag=TAG)
    answers = {"If-Match": [taken, refused, taken], "If-None-Match": [taken, taken]}
    with Canned(*answers.get(ignored, [taken, refused, refused, taken])) as given:
        store = S3Store("shop-state", region=REGION, endpoint=f"http://127.0.0.1:{given.port}")
        if ignored:
            with pytest.raises(StoreDenied, match=f"ignores {ignored}: two workers"):
                create(store)
        else:
            create(store)
        store.close()
    assert [path for method, path in given.asked if method == "PUT"][:2] == ["/shop-state/~conditions"] * 2


def test_what_moto_keeps_passes_the_check(s3: Moto) -> None:
    store = S3Store(s3.new_bucket(), region=REGION, endpoint=s3.endpoint)
    assert {one.check: one.severity for one in store.checkup(NAME)} == dict.fromkeys(
        ("tls", "bucket", "changing", "versioning"), "ok"
    )
    assert list(store.names("")) == []
    store.close()


def test_bucket_versioning_is_a_warning(s3: Moto) -> None:
    bucket = s3.new_bucket()
    s3.client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    store = S3Store(bucket, region=REGION, endpoint=s3.endpoint)
    (found,) = [one for one in store.checkup(NAME) if one.check == "versioning"]
    assert (found.severity, bucket in found.fix) == ("warn", True)
    store.close()


def test_no_log_shows_what_is_signed_or_sent(s3: Moto, caplog: pytest.LogCaptureFixture) -> None:
    store = S3Store(s3.new_bucket(), region=REGION, endpoint=s3.endpoint)
    with caplog.at_level(logging.DEBUG):
        store.write(NAME, b'{"row": "confidential"}', if_tag=None)
    store.close()
    for hidden in (*SECRETS, "confidential", "Signature="):
        assert hidden not in caplog.text


@pytest.mark.parametrize("body", [b"", b"{}", b"{}\n", b"{}\n" + b" " * 64, b"\n" + b" " * 63, b"x" * 100])
def test_the_blanks_of_a_write_are_taken_away_again(s3: Moto, body: bytes) -> None:
    """They make the same bytes other ones, so that each write has a tag of its own."""
    bucket, sent = s3.new_bucket(), set[bytes]()
    store = S3Store(bucket, region=REGION, endpoint=s3.endpoint)
    for name in (NAME, OTHER):
        store.write(name, body, if_tag=None)
        found = store.read(name)
        assert isinstance(found, Found)
        assert found.body == body
        sent.add(s3.client().get_object(Bucket=bucket, Key=name)["Body"].read())
    store.close()
    assert len(sent) == 2


def test_what_another_program_wrote_is_read_as_it_is(s3: Moto) -> None:
    bucket = s3.new_bucket()
    store = S3Store(bucket, region=REGION, endpoint=s3.endpoint)
    for body in (b"", b"{}\n", b"{}"):
        s3.client().put_object(Bucket=bucket, Key=NAME, Body=body)
        found = store.read(NAME)
        assert isinstance(found, Found)
        assert found.body == body
        assert isinstance(store.read(NAME, unless=found.tag), Unchanged)
    store.close()


def test_a_listing_passes_by_the_lines_of_logs(s3: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    store = S3Store(s3.new_bucket(), region=REGION, endpoint=s3.endpoint)
    for name in ("a.json", "~a.json", "~z.json", "é.json"):
        store.write(name, b"{}", if_tag=None)
    for number in range(3):
        store.append("audit/a.jsonl", str(number))
    assert list(store.names("")) == ["a.json", "audit/a.jsonl", "~a.json", "~z.json", "é.json"]
    assert [one.name for one in store.listed("")] == ["a.json", "~a.json", "~z.json", "é.json"]
    monkeypatch.setattr("poller.stores.numbered.PAGE", 2)
    assert store.lines("audit/a.jsonl") == ["0", "1", "2"]
    store.close()


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, "state.bucket"),
        ({"bucket": "Shop"}, "state.bucket"),
        ({"bucket": "a/b"}, "state.bucket"),
        ({"bucket": "shop--use1-az4--x-s3"}, "state.bucket"),
        ({"bucket": "shop", "region": "Frankfurt am Main"}, "state.region"),
        ({"bucket": "shop", "endpoint": "minio:9000"}, "state.endpoint"),
        ({"bucket": "shop", "endpoint": "https://user:SIGNATURE@minio"}, "state.endpoint"),
        ({"bucket": "shop", "endpoint": "https://minio:SIGNATURE"}, "state.endpoint"),
    ],
)
def test_an_invalid_setting_of_s3_is_refused(options: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        open_store(StateOptions(store="s3", **options), {}, file="poller.toml")  # type: ignore[arg-type]
    assert refused.value.key == key
    assert refused.value.next_step
    assert "SIGNATURE" not in str(refused.value)


def test_settings_lead_to_the_bucket() -> None:
    store = open_store(StateOptions(store="s3", bucket="shop-state", region="eu-central-1"), {})
    assert store.locate("x") == "object x in bucket shop-state of Amazon S3"


def test_without_boto3_the_store_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.startswith(("boto", "poller.stores.s3"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "boto3", None)
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(ConfigError, match=r"Install poller's extra s3: pip install boto3") as refused:
        open_store(StateOptions(store="s3", bucket="shop-state"), {})
    assert refused.value.key == "state.store"
