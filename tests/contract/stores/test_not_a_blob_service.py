"""Answers that no blob service gives: a sign-in page, a proxy's, a broken one's. Each is a StoreError and says so."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from poller.errors import StateCorrupt, StoreError, StoreUnavailable
from poller.lease import StateFile
from poller.model.timing import Timing
from poller.ports import Found, Timeout
from poller.runtime import SystemRuntime
from poller.stores import BlobStore
from tests.contract.stores.canned import Canned, answer
from tests.unit.model.example import EXAMPLE

NAME = "state/shop/orders.json"
TAG = '"0x8DAAAAAAAAAAAAA"'
QUICK = Timeout(connect=1.0, read=1.0)
TOLD = b"Tue, 07 Apr 2026 01:23:45 GMT"
AT = datetime(2026, 4, 7, 1, 23, 45, tzinfo=UTC)
JSON = b"application/json"
LISTING = b"<?xml version='1.0'?><EnumerationResults>%s</EnumerationResults>"
HTML = b"<html><body>Sign in</body></html>"

ANSWERS = {
    "a page": answer(200, body=HTML),
    "a page as a part": answer(206, body=HTML, ETag=TAG),
    "nothing": answer(200),
    "nothing with a tag": answer(200, ETag=TAG),
    "deep JSON": answer(409, body=b"[" * 100_000).replace(b"application/xml", JSON),
    "deep XML": answer(500, body=b"<a>" * 20_000 + b"</a>" * 20_000),
    "an unknown charset": answer(200, body=b"{}", ETag=TAG).replace(b"/xml", b"/xml; charset=klingon"),
    "an unknown encoding": answer(200, body=b"<?xml version='1.0' encoding='klingon'?><a/>"),
    "no gzip": answer(206, body=b"{}", ETag=TAG, Content_Range="bytes 0-1/2", Content_Encoding="gzip"),
    "an empty listing": answer(200, body=LISTING % b""),
    "a nameless blob": answer(200, body=LISTING % b"<Blobs><Blob></Blob></Blobs>"),
    "a blob of many bytes": answer(
        200,
        body=LISTING % b"<Blobs><Blob><Name>x</Name><Properties><Content-Length>many</Content-Length></Properties>"
        b"</Blob></Blobs>",
    ),
    "another protocol": b"220 welcome\r\n\r\n",
    **{
        f"Content-Range: {span}": answer(206, body=b"{}", ETag=TAG, Content_Range=span)
        for span in ("", "bytes", "bytes 0-1", "bytes a-b/c", "bytes 0-1/*", "bytes 0-1/-5", "bytes 5-9/2")
    },
}


@pytest.mark.guarantee(
    "One worker at a time",
    "An answer that is not the store's is an error of the store, and no document is overwritten",
)
@pytest.mark.parametrize("given", ANSWERS.values(), ids=ANSWERS.keys())
def test_whatever_answers_a_request_ends_in_a_store_error(given: bytes) -> None:
    """Never in the SDK's IndexError, AttributeError, TypeError or RecursionError."""
    with Canned(given) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        for ask in (
            lambda: store.read(NAME, timeout=QUICK),
            lambda: store.read(NAME, unless=TAG, timeout=QUICK),
            lambda: store.write(NAME, b"{}", if_tag=None, timeout=QUICK),
            lambda: store.write(NAME, b"{}", if_tag=TAG, timeout=QUICK),
            lambda: store.append("audit/a.jsonl", "line", timeout=QUICK),
            lambda: store.lines("audit/a.jsonl"),
            lambda: list(store.names("")),
            lambda: store.checkup(NAME),
        ):
            with suppress(StoreError):
                ask()
        store.close()


def test_a_page_in_the_place_of_a_document_is_named_and_kept() -> None:
    """With a tag and all, as a caching proxy might have it: it is no document, and nothing is written over it."""
    given = answer(206, body=HTML, ETag=TAG, Content_Range=f"bytes 0-{len(HTML) - 1}/{len(HTML)}")
    with Canned(given) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        file = StateFile(
            store, app_name="shop", poller_name="orders", runtime=SystemRuntime(), timing=Timing(60.0, 15.0)
        )
        with pytest.raises(StateCorrupt, match="is not JSON"):
            file.read()
        store.close()
    assert [method for method, _ in server.asked] == ["GET"]


def test_a_listing_that_is_none_says_what_to_check() -> None:
    with Canned(answer(200, body=HTML)) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        with pytest.raises(StoreUnavailable, match=r"is not a blob service's.*proxy"):
            list(store.names(""))
        store.close()


@pytest.mark.parametrize("sent", [b"Tue, 07 Apr 2026 01:23:45 -0000", b"Tue, 07 Apr 2026 03:23:45 +0200"])
def test_a_servers_time_has_a_zone_in_whatever_form_it_comes(sent: bytes) -> None:
    """A time without one cannot be compared with one that has it."""
    given = answer(206, body=b"{}", ETag=TAG, Content_Range="bytes 0-1/2", Last_Modified=sent.decode())
    with Canned(given.replace(TOLD, sent)) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        found = store.read(NAME, timeout=QUICK)
        store.close()
    assert found == Found(b"{}", TAG, AT, AT)
    assert found.server_time is not None
    assert found.server_time.utcoffset() == timedelta(0)


@pytest.mark.parametrize("sent", ["Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_servers_time_that_cannot_be_is_none(sent: str) -> None:
    """A proxy's clock that was never set, or the end of time: it was an OverflowError, or no lease ever expired."""
    span = f"bytes 0-{len(EXAMPLE) - 1}/{len(EXAMPLE)}"
    given = answer(206, body=EXAMPLE, ETag=TAG, Content_Range=span, Last_Modified="Tue, 07 Apr 2026 01:20:00 GMT")
    with Canned(given.replace(TOLD, sent.encode())) as server:
        store = BlobStore.from_connection_string(server.connection_string)
        runtime, timing = SystemRuntime(), Timing(60.0, 15.0)
        file = StateFile(store, app_name="shop", poller_name="orders", runtime=runtime, timing=timing)
        copies = [file.read() for _ in range(2)]
        store.close()
    for copy in copies:
        assert copy is not None
        assert copy.server_time is None, "so it counts as unchanged for as long as it was seen"
    assert abs(file.clock.now() - runtime.utcnow()) < timedelta(minutes=1)
