"""Keys and times of the rows that a change is tried on: such that what it changes of their order would lose some."""

from __future__ import annotations

from datetime import datetime, timedelta

from tests.contract.sources.place import BEGINNING


def cased(number: int) -> str:
    """Texts that two collations order differently: by bytes all of `B` come before all of `a`."""
    return f"{'a' if number % 2 == 0 else 'B'}{number:03}"


def padded(number: int) -> str:
    return f"k{number:03}"


def uuid_of(number: int) -> str:
    return f"{number * 2654435761 % 2**32:08x}-0000-4000-8000-000000000000"


def falling(number: int) -> int:
    """Keys that fall while the times rise."""
    return 1000 - number


def just_after(number: int) -> datetime:
    """Twenty rows on the second, all others within the same second: without digits, all share one moment."""
    return BEGINNING + (timedelta(0) if number <= 20 else timedelta(milliseconds=300))


def tenths(number: int) -> datetime:
    return BEGINNING + timedelta(seconds=number / 10)


def crossing(number: int) -> int:
    """Numbers that get a third digit just after two batches: as texts, all that follow come before those."""
    return number + 84


def bytes_of(number: int) -> bytes:
    """With zeros, and bytes that are no text."""
    return bytes([255 - number, 0, number])
