"""Why a change is refused: it was not confirmed or would skip rows, or an argument cannot be meant."""

from __future__ import annotations

from typing import ClassVar

from poller.errors import PollerError

LONGEST_SHOWN = 80
"""The most characters of an argument that an error shows."""


class Refused(PollerError):
    """Nothing was changed, because it was not confirmed, would skip rows, or would overwrite something."""

    exit_code: ClassVar[int] = 3


class WrongArgument(PollerError):
    """An argument that cannot be meant as it stands."""

    exit_code: ClassVar[int] = 2


def clean(text: object, option: str) -> str:
    """The text, if it can be kept. Raises: WrongArgument for what is not text, or not Unicode (bytes of another
    encoding)."""
    if not isinstance(text, str):
        raise WrongArgument(f"{option}: {shown(text)} is not text.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongArgument(f"{option} is not UTF-8 text.") from None
    if "\0" in text:
        raise WrongArgument(f"{option} contains a NUL character.")
    return text


def whole(value: object, option: str, *, least: int, most: int) -> int:
    """The number. Raises: WrongArgument, if it is not a whole one in this range."""
    if type(value) is not int or not least <= value <= most:
        raise WrongArgument(f"{option}: {shown(value)} is not a whole number from {least:,} to {most:,}.")
    return value


def shown(value: object) -> str:
    """What was given in the place of something else, for an error."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, or an object of the caller's
        return f"the given {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "..."
