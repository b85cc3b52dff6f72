"""The URL that `poller init` is given: as it stands, or by the setting that holds it; and where it is kept then."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy.engine import URL

from poller.admin.refusals import WrongArgument
from poller.config.sqlite_paths import anchored
from poller.databases.tokens import check
from poller.databases.urls import holds_secret, read_url, with_installed_driver
from poller.errors import ConfigError
from poller.project.new_poller import setting_for

if TYPE_CHECKING:
    from pathlib import Path

    from poller.project.file import ProjectFile


@dataclass(frozen=True)
class GivenUrl:
    """A database's URL.

    Attributes:
        text: the URL itself. setting: the one that it was named by, if it was.
    """

    text: str = field(repr=False)
    setting: str | None = None

    @classmethod
    def of(cls, text: str) -> GivenUrl:
        """Make it of a URL, or of `%NAME%`. Raises: WrongArgument."""
        if not (len(text) > 2 and text.startswith("%") and text.endswith("%")):
            return cls(text)
        setting = text[1:-1]
        if re.fullmatch("[A-Z_][A-Z0-9_]*", setting) is None:
            raise WrongArgument(
                f"--url: {setting!r} is an invalid name of a setting.",
                next_step="Use upper-case letters, digits and underscores.",
            )
        found = os.environ.get(setting)
        if not found:
            raise WrongArgument(f"--url: the environment variable {setting} is not set.")
        return cls(found, setting)

    @property
    def holds_secret(self) -> bool:
        """True if a password, a passphrase or a token is in it. Raises: ConfigError, if it is not a URL."""
        return holds_secret(read_url(self.text, key="url"))

    @property
    def shows_secret(self) -> bool:
        """True if it holds one and was not named by a setting. Raises: ConfigError, if it is not a URL."""
        return self.setting is None and self.holds_secret

    @property
    def takes_identity(self) -> bool:
        """True if a Microsoft Entra identity may sign in instead of a password: a server and driver that take a token,
        verified TLS, and no password in it. Raises: ConfigError, if it is not a URL."""
        try:
            check(with_installed_driver(read_url(self.text, key="url")), "identity")
        except ConfigError:
            return False
        return True

    def kept_in(self, folder: Path, there: ProjectFile | None, *, name: str) -> str | None:
        """The setting that the file names for it; None if the URL is in the file itself: SQLite's, without a
        secret. One setting serves all pollers of a database.

        Args:
            folder: of the file. there: the file, if it exists. name: of the new poller.
        Raises: ConfigError, if it is not a URL.
        """
        if self.setting is not None:
            return self.setting
        parsed = read_url(self.text, key="url")
        known = there.setting_of(anchored(self.text, folder), os.environ) if there is not None else None
        if known is not None or (parsed.get_backend_name() == "sqlite" and not holds_secret(parsed)):
            return known
        return _new(parsed, there, name=name)


def _new(parsed: URL, there: ProjectFile | None, *, name: str) -> str:
    wanted = setting_for(parsed, name)
    names = [wanted, *(f"{wanted}_{n}" for n in range(2, 100))]
    return next(one for one in names if there is None or there.is_free(one, os.environ))
