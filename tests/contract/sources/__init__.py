"""One suite over all sources: what a source promises, whichever database its rows come from.

It uses what a user uses: a source (`poller.SqlSource`, or any other `poller.ports.Source`), a
`poller.Poller` with a store, and ticks. Nothing of the inside of `poller.sources` is imported, so that the suite stays
when that is rebuilt.

To run it against a source of your own, say what your database is (a `Place`), and give its laws to a test class, in a
test module of yours beside a checkout of this repository::

    import pytest
    from tests.contract.sources import Change, Place, SourceLaws, alters

    class Cockroach(Place):
        name = "cockroach"
        types = {"integer": "int8", "moment": "timestamptz(6)", "text": "text", "number": "decimal(30,10)"}
        changes = (alters("key int4 to int8", "ALTER id TYPE int8", "ALTER id TYPE int4"), ...)
        known = {"*: key int4 to int8, across a restart, *": "why it is known to lose rows"}

        def session(self): ...      # a connection of an administrator
        def insert(self, table, rows): ...
        def source(self, reading, *, before=None): ...     # a `poller.ports.Source`

    class TestCockroach(SourceLaws):
        kind = Cockroach

        @pytest.fixture(scope="class")
        @classmethod
        def made(cls):
            with Cockroach("cockroachdb://...") as place:
                yield place

`place.py` says what a place must offer and what it may leave out: a law for which a place has no means is not run.
`SqlPlace` is a place that SQLAlchemy reaches. The ordinary run tries each change once; `-m "soak or not soak"` tries
all of them at every moment, on tables, views and queries. A known loss is a test that must fail with an assertion
(`xfail(strict=True)`): a loss that was fixed shows, and leaves `known`.
"""

import pytest

pytest.register_assert_rewrite("tests.contract.sources.laws", "tests.contract.sources.follower")

from tests.contract.sources.laws import SourceLaws  # noqa: E402 - after their assertions were registered
from tests.contract.sources.place import Change, Layout, Place, Reading, Session, SqlPlace, alters  # noqa: E402

__all__ = [
    "Change", "Layout", "Place", "Reading", "Session", "SourceLaws", "SqlPlace", "alters",
]  # fmt: skip
