"""SQL Server, by its compiled SQL: a text or a number is not cut on its way through the document."""

from __future__ import annotations

from decimal import Decimal

import pytest
import sqlalchemy as sa

from poller.sources.columns import Column, Family
from poller.sources.dialects import dialect_for


def test_a_text_is_rendered_whole_and_with_its_national_characters() -> None:
    column = dialect_for("mssql").from_type("c", sa.Unicode(200), False)
    assert column.family is Family.TEXT
    assert dialect_for("mssql").render("c", column) == "CAST(c AS nvarchar(max))"
    assert dialect_for("mssql").render("n", Column("n", Family.INTEGER)) == "CAST(n AS varchar(64))"


@pytest.mark.parametrize(
    ("described", "expected"),
    [
        (("c", Decimal, None, 38, 38, 18, True), "CAST(:v AS numeric(38, 18))"),
        (("c", Decimal, None, 12, 12, 0, True), "CAST(:v AS numeric(12, 0))"),
        (("c", Decimal, None, None, None, None, None), "CAST(:v AS numeric(38, 10))"),
        ((), "CAST(:v AS numeric(38, 10))"),
    ],
)
def test_a_querys_number_keeps_all_its_digits(described: tuple[object, ...], expected: str) -> None:
    dialect = dialect_for("mssql")
    assert dialect.cast(":v", dialect.from_value("c", Decimal("1.5"), described)) == expected
