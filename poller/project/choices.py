"""What is decided where nothing was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from poller.admin.refusals import WrongArgument

if TYPE_CHECKING:
    from poller.sources.proposal import Proposal
    from poller.sources.stamping import Stamp


class Choices:
    """Decides what was not given. As it stands it takes what is proposed, and refuses what is not clear; the console's
    asks a person. Each raises WrongArgument where nothing can be chosen."""

    def url(self) -> str:
        """The database's."""
        raise WrongArgument("--url is missing.", next_step="Give it; nothing can be asked here.")

    def identity(self) -> str | None:
        """Who signs in to a database whose URL holds no password: `true`, a prefix of settings, `false`; here only
        the URL's user."""
        return None

    def table(self, names: Sequence[str]) -> str:
        """One of the database's tables, or a view; here the only one."""
        if len(names) == 1:
            return names[0]
        raise WrongArgument("--table is missing.", next_step=f"There are: {first_of(names)}.")

    def cursor(self, proposal: Proposal) -> str | None:
        """The column that grows with every change, here the best; None: triggers are to record its changes."""
        if proposal.cursors:
            return proposal.cursors[0].column
        record = "Let triggers record its changes, with --capture; or name" if proposal.capture else "Name"
        raise WrongArgument(
            f"{proposal.table} has no column that could be a cursor: no timestamp, no single integer key.",
            next_step=f"{record} a column with --cursor, or add one that is set at every change.",
        )

    def zone(self, column: str, stamp: Stamp) -> str:
        """What the times of a column without a zone mean, which the database stamps in another zone than UTC; here that
        of the database, if it has a name."""
        if stamp.iana is not None:
            return stamp.iana
        raise WrongArgument(
            f"The database stamps {column} in {stamp} ({stamp.source}), which is not the name of an IANA time zone.",
            next_step="Name the zone with --time-zone.",
        )

    def key(self, proposal: Proposal) -> Sequence[str]:
        """The columns of the key, which are unique together and never NULL; here the table's own."""
        return proposal.key

    def app(self, proposed: str) -> str:
        """The application's name."""
        return proposed

    def name(self, proposed: str) -> str:
        """The poller's name."""
        return proposed

    def state(self, proposed: str) -> str:
        """Where checkpoints are kept: `sql`, `blob` or `table`."""
        return proposed


def first_of(names: Sequence[str]) -> str:
    """A few of the tables' names, for people."""
    return (", ".join(names[:20]) + (", ..." if len(names) > 20 else "")) or "none"
