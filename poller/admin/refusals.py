"""Why a change is refused: it was not confirmed or would skip rows, or an argument cannot be meant."""

from __future__ import annotations

from typing import ClassVar

from poller.errors import PollerError


class Refused(PollerError):
    """Nothing was changed, because it was not confirmed, would skip rows, or would overwrite something."""

    exit_code: ClassVar[int] = 3


class WrongArgument(PollerError):
    """An argument that cannot be meant as it stands."""

    exit_code: ClassVar[int] = 2


def clean(text: str, option: str) -> str:
    """The text, if it can be kept. Raises: WrongArgument for what is no Unicode text (bytes of another encoding)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WrongArgument(f"{option} is not UTF-8 text.") from None
    if "\0" in text:
        raise WrongArgument(f"{option} contains a NUL character.")
    return text
