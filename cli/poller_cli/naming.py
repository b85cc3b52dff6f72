"""What a NAME on the command line stands for: a configured poller, or a backfill, which only its document knows of."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from poller.admin.refusals import Refused, WrongArgument
from poller.app import App
from poller.config.problems import suggestion
from poller.config.types import is_name
from poller.errors import ConfigError, StateCorrupt, StoreError
from poller.poller import Poller

if TYPE_CHECKING:
    from collections.abc import Sequence

    from poller.backfill.documents import Document
    from poller.config import PollerOptions


@dataclass(frozen=True)
class Named:
    """What a name stands for.

    Attributes:
        documents: of a backfill, several where it is in parts; none for a configured poller.
    """

    name: str
    app: ConsoleApp
    documents: list[Document] = field(default_factory=list)

    @property
    def options(self) -> PollerOptions:
        """Those of the poller, or of the one that the backfill belongs to."""
        of = self.documents[0].of if self.documents else None
        return self.app.config.pollers[of or self.name]

    def only(self) -> Poller:
        """The one poller, wired now. Raises: as `only_name`, ConfigError (a source that cannot be made)."""
        self.only_name()
        if not self.documents:
            return self.app.poller(self.name)
        (document,) = self.documents
        return self.app.pollers[document.of or ""].beside(document.name, self.app.backfills.source(document))

    def only_name(self) -> str:
        """The name of the one document. Raises: WrongArgument, where there are several."""
        parts = [one.name for one in self.documents] or [self.name]
        if len(parts) > 1:
            raise WrongArgument(
                f"The backfill {self.name} is cut into {len(parts)} parts, each with a document of its own.",
                next_step=f"Name one: {', '.join(parts)}.",
            )
        return parts[0]


class ConsoleApp(App):
    """A configured application whose backfills can be named, where a command asks for `named`. Commands that ask for
    `poller` or `known` are for configured pollers only: they refuse a backfill, and name the next step."""

    def named(self, name: str) -> Named:
        """What the name stands for; a name that is not configured costs a request, or two.

        Raises: ConfigError (neither a poller nor a backfill), StateCorrupt.
        """
        if name in self.config.pollers:
            return Named(name, self)
        documents = self._documents(name)
        lost = next((one for one in documents if one.of is None), None)
        if lost is not None:
            whose = f" of {lost.begun_for!r}" if lost.begun_for else ""
            raise ConfigError(
                f"{name} is a backfill{whose}, and {self.path} has no such poller.",
                key=f"pollers.{lost.begun_for or name}",
                file=str(self.path),
                next_step="Use the configuration that it was begun with: -c FILE.",
            )
        return Named(name, self, documents)

    def several(self, names: Sequence[str] | None) -> tuple[list[Poller], list[Document]]:
        """The configured pollers and the backfills of some names, each once; without names, all pollers."""
        if not names:
            return [self.poller(name) for name in self.pollers], []
        pollers: dict[str, Poller] = {}
        documents: dict[str, Document] = {}
        for named in map(self.named, names):
            if named.documents:
                documents |= {one.name: one for one in named.documents}
            else:
                pollers[named.name] = self.poller(named.name)
        return list(pollers.values()), list(documents.values())

    def known(self, name: str) -> str:
        """As `App.known`. Raises also: Refused, for a backfill's name."""
        if name in self.config.pollers:
            return name
        first = self._documents(name)[0]
        words = self.backfills.command(first)
        going_on = shlex.join(["poller", *words]) if words else "the same poller backfill command"
        raise Refused(
            f"{name} is a backfill of {first.of or first.begun_for or 'a poller'}, and this command is for configured "
            "pollers; nothing was done.",
            next_step=f"status, watch, peek, history, pause, resume and export-checkpoint take it. To go on with it: "
            f"{going_on}; to deliver its range once more, add --as NEW.",
        )

    def refuse_backfill(self, name: str) -> None:
        """Raises: Refused, where `name` is a backfill's: nothing else may take its place."""
        if name not in self.config.pollers and is_name(name) and self.backfills.named(name):
            raise Refused(f"{name} is a backfill's name; nothing was changed.", next_step="Name another.")

    def _documents(self, name: str) -> list[Document]:
        """At least one. Raises: ConfigError, where there is none or that is not known."""
        unknown = f"{self.path}: there is no poller {name!r}"
        try:
            found = self.backfills.named(name) if is_name(name) else []
        except StateCorrupt:
            raise
        except StoreError as error:
            found, unknown = [], f"{unknown}, and whether there is such a backfill is not known ({error.message})"
        else:
            unknown += ", and no backfill of that name"
        if not found:
            raise ConfigError(
                f"{unknown}{suggestion(name, sorted(self.config.pollers))}",
                key=f"pollers.{name}",
                file=str(self.path),
            )
        return found
