"""Moments as a state document holds them: `2026-04-07T01:23:45.123456Z`.

Another program's document may hold moments that Python cannot, such as seven digits of a second's fraction (.NET), a
year 0, or the year 1 in a zone east of Greenwich. They are not refused: the nearest moment of Python's is used, and the
text is written back unchanged.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import AwareDatetime, PlainSerializer, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from poller.model.when import FIRST, LAST, in_utc

_SHAPE = re.compile(r"(\d{4,6})(-\d\d-\d\d[Tt ]\d\d:\d\d:)(\d\d)(\.\d+)?([Zz]|[+-]\d\d:?\d\d)")
"""RFC 3339, with years of up to six digits. The groups: year, month to minute, seconds, their fraction, zone."""


class Kept(datetime):
    """A moment of another program's that we would write differently; `text` is the original.

    Moments computed from it have no text.
    """

    text: str

    @classmethod
    def of(cls, moment: datetime, text: str) -> Kept:
        """The moment to compute with, in UTC, and its text."""
        kept = cls.combine(moment.date(), moment.timetz())
        kept.text = text
        return kept


def later(moment: datetime, seconds: float) -> datetime:
    """The moment `seconds` later; Python's last moment, if that lies beyond."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


def stamp(moment: datetime) -> str:
    """A moment as the document writes it: UTC, microseconds, `Z`, a year of four digits; a `Kept` one unchanged."""
    text: str | None = getattr(moment, "text", None)
    return text or in_utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _read(value: Any, read: ValidatorFunctionWrapHandler) -> datetime | None:
    if value == "":
        return None
    text = value if isinstance(value, str) else ""
    try:
        moment: datetime = read(value)
    except ValidationError:
        nearest = _nearest(text, read)
        if nearest is None:
            raise
        return Kept.of(nearest, text)
    if isinstance(moment, Kept):
        return moment
    inside = in_utc(moment)
    fraction = _SHAPE.fullmatch(text)
    finer = fraction is not None and len((fraction[4] or "").rstrip("0")) > len(".123456")
    return Kept.of(inside, text) if finer or inside != moment else inside


def _nearest(text: str, read: ValidatorFunctionWrapHandler) -> datetime | None:
    """The nearest moment to one that Python cannot hold: outside of the years 1 to 9999, or a leap second."""
    shape = _SHAPE.fullmatch(text)
    if shape is None:
        return None
    year, middle, second, _, zone = shape.groups()
    valid = "2000" if int(year) == 0 or int(year) > LAST.year else year
    try:
        moment: datetime = read(f"{valid}{middle}{'59.999999' if second == '60' else second}{zone}")
    except ValidationError:
        return None  # a month 13, say
    if valid == year:
        return in_utc(moment)
    return FIRST if int(year) == 0 else LAST


Stamp = Annotated[AwareDatetime, WrapValidator(_read), PlainSerializer(stamp, return_type=str, when_used="json")]
"""A moment on the store's clock, for people; expiry is not computed from it unless the store has no clock."""
