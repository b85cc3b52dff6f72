"""One fenced transaction: entered, left, committed or not. What became of it decides whether its batch is done.

    entering --> inside --> left --> committing --> committed
        |          |          |          `--> failed
        `----------+----------+--> failed, rolled back

The ledger's entry is written before the handler's first statement, and looked for right before the commit. A database
may have rolled everything back in between (MariaDB's victim of a deadlock), and a handler that goes on after such an
error writes in a new transaction, without fence, what is left of its work: that is rolled back, and the batch fails.
A commit inside the block, or after it raised, is refused likewise.
"""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from typing import Any, Literal, NoReturn
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, event
from sqlalchemy.engine import Dialect, ExceptionContext
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from poller.databases.errors import says_no_table
from poller.errors import ConfigError, Fenced, PollerError
from poller.handler.batch import Batch
from poller.model.row_ids import KEY_BYTES
from poller.ports import Row
from poller.sinks import driver, ledger
from poller.sinks.ledger import LedgerRow
from poller.sinks.schema import family_of
from poller.sinks.statements import statements_for

_State = Literal["entering", "inside", "left", "committing", "committed", "rolled back", "failed"]
_SAID: dict[_State, str] = {
    "entering": "was refused",
    "inside": "is still in its block",
    "left": "was not committed",
    "rolled back": "was rolled back",
    "failed": "failed",
}
_WATCHED: WeakKeyDictionary[Connection, FencedTransaction] = WeakKeyDictionary()
"""Which fenced transaction a connection is in, until it ends."""
_RAISED: WeakKeyDictionary[Dialect, dict[tuple[str, ...], int]] = WeakKeyDictionary()
"""At which token a fence stands, as far as this process has seen it committed; for each engine (which its dialect
stands for). It only spares work: the fence is looked at all the same."""


class NotCommittable(PollerError):
    """A fenced transaction may not be committed; it was rolled back."""


class FencedTransaction:
    """A `Fence` of its batch. `part`: what tells it from others of the same batch and database."""

    def __init__(self, connection: Connection, batch: Batch, part: str) -> None:
        self.part = part
        self.dialect = connection.dialect
        self.state: _State = "entering"
        self.thread = threading.get_ident()
        self.positions: tuple[int, ...] = ()
        self._batch = batch
        self._names = {
            "app": batch.standing.app_name,
            "poller": batch.poller_name,
            "shard": batch.standing.shard,
        }
        self._ledger = {**self._names, "part": part}
        self._statements = statements_for(family_of(connection.dialect.name))
        self._entry: LedgerRow | None = None
        self._keys: list[bytes] = []

    # --- for the handler ---------------------------------------------------------------------------------------------

    def enter(self, connection: Connection) -> list[Row]:
        """Lock the fence and note what is applied now. Returns the rows that were not applied yet.

        Raises: Fenced, ConfigError, and what the database raises.
        """
        batch = self._batch
        self._refuse_a_second()
        batch.fences.append(self)
        if not connection.in_transaction():
            connection.begin()  # as the first statement would: the listeners shall see no other begin
        driver.check(connection, family_of(connection.dialect.name))
        self._watch(connection)
        try:
            self._note(connection)
        except DBAPIError as error:
            if not says_no_table(error):
                raise
            self._create(connection)
            self._note(connection)
        self.state = "inside"
        return [batch.rows[position] for position in self.positions]

    def leave(self, connection: Connection) -> None:
        """The block has ended: leave out what the handler named as failed meanwhile. Raises: NotCommittable."""
        named = {failure.position for failure in self._batch.failures}
        kept = tuple(position for position in self.positions if position not in named)
        if self._entry is not None and kept != self.positions:
            carried = self._entry.row_keys[len(self.positions) * KEY_BYTES :]
            row_keys = b"".join(self._keys[position] for position in kept) + carried
            if not self._statements.shrink(connection, self._ledger, self._entry.id, row_keys):
                self._give_up(connection)
        self.positions = kept
        self.state = "left"

    def abandon(self) -> None:
        """The block raised: nothing of it may be committed."""
        self.state = "failed"

    # --- for the batch -----------------------------------------------------------------------------------------------

    def problem(self) -> str | None:
        """See `poller.handler.batch.Fence`. A transaction that was tried again is judged by its last try."""
        if self.state == "committing":
            self._committed()
        if self.state == "committed" or (self.state not in {"inside", "left"} and self._was_tried_again()):
            return None
        return f"a fenced transaction{f' (part {self.part!r})' if self.part else ''} {_SAID[self.state]}"

    def remembers(self, position: int) -> bool:
        """See `poller.handler.batch.Fence`."""
        return position in self.positions and self.state in {"left", "committing", "committed"} and not self._inside()

    # --- for SQLAlchemy's events -------------------------------------------------------------------------------------

    def committing(self, connection: Connection) -> None:
        """Right before the commit. Raises: NotCommittable."""
        if self.state == "left" and self._entry is not None:
            lasts = False
            with suppress(SQLAlchemyError):  # PostgreSQL, after an error that the handler swallowed
                lasts = self._statements.has(connection, self._ledger, self._entry.id)
            if not lasts:
                self._give_up(connection)
        elif self.state != "left":
            self._give_up(connection)
        self.state = "committing"

    def ended(self, state: _State) -> None:
        """The transaction was rolled back, or its commit failed."""
        if self.state not in {"committed", "failed"}:
            self.state = state

    # --- how it is done ----------------------------------------------------------------------------------------------

    def _note(self, connection: Connection) -> None:
        """Lock the fence, read the ledger, write to it."""
        batch, standing, token = self._batch, self._batch.standing, self._batch.fencing_token
        seen = _RAISED.get(self.dialect, {}).get(tuple(self._names.values()))
        there = self._statements.fencing.enter(
            connection, self._names, token, stands=seen == token, shared=standing.untried
        )
        if there > token:
            raise Fenced(
                f"{standing.app_name}/{batch.poller_name}: a later owner has written here, under token {there}; this "
                f"one has {token}.",
                fencing_token=token,
                standing_token=there,
                next_step="Nothing is wrong if another worker has taken over. If the state document was made "
                f"again: poller reset-to-checkpoint {batch.poller_name} FILE --token-at-least {there}",
            )
        self._keys = self._keys or ledger.hashed(batch.keys())
        named = {failure.position for failure in batch.failures}
        plan = ledger.plan(
            self._statements.read(connection, self._ledger), self._keys, standing=standing, token=token, named=named
        )
        self._refuse_the_same_part({*range(len(self._keys))} - named - {*plan.fresh})
        self.positions = plan.fresh
        if not plan.fresh:
            return
        self._entry = LedgerRow(
            id=secrets.randbits(63),
            lane=standing.lane,
            generation=standing.generation,
            token=token,
            through=plan.through,
            row_keys=b"".join(self._keys[position] for position in plan.fresh) + plan.carried,
        )
        self._statements.write(connection, self._ledger, self._entry, plan.replaced)

    def _create(self, connection: Connection) -> None:
        """Make the tables, in a transaction of their own where the database has such."""
        sqlite = connection.dialect.name == "sqlite"
        for table in (self._statements.tables.fence, self._statements.tables.applied):
            try:
                if not sqlite:
                    driver.roll_back(connection)
                table.create(connection, checkfirst=True)
                if not sqlite:
                    driver.commit(connection)
            except DBAPIError as error:
                if not sqlite:
                    driver.roll_back(connection)
                if not self._exists(connection, table.name):
                    raise PollerError(
                        f"The table {table.name} is not in this database, and could not be made "
                        f"({type(error.orig).__name__}).",
                        next_step="Run the statements that `poller sink ddl URL` prints.",
                    ) from error

    def _exists(self, connection: Connection, name: str) -> bool:
        """Another process may have made it at the same moment."""
        try:
            found = connection.dialect.has_table(connection, name)
            driver.roll_back(connection)
        except DBAPIError:
            return False
        return found

    def _give_up(self, connection: Connection) -> NoReturn:
        """Roll back in the database; SQLAlchemy would not, after an error in its event."""
        said = _SAID[self.state] if self.state != "left" else "was rolled back by the database in between"
        self.state = "failed"
        driver.roll_back(connection)
        raise NotCommittable(
            f"The fenced transaction {said}: nothing of it is committed.",
            next_step="Commit after the block, and let errors of the database out of it, or use savepoints inside.",
        )

    def _committed(self) -> None:
        self.state = "committed"
        seen = _RAISED.setdefault(self.dialect, {})
        names = tuple(self._names.values())
        seen[names] = max(self._batch.fencing_token, seen.get(names, 0))

    def _others(self) -> list[FencedTransaction]:
        return [one for one in self._batch.fences if isinstance(one, FencedTransaction) and one is not self]

    def _was_tried_again(self) -> bool:
        fences = self._batch.fences
        later = fences[fences.index(self) + 1 :] if self in fences else []
        return any(
            isinstance(one, FencedTransaction) and one.part == self.part and one.dialect is self.dialect
            for one in later
        )

    def _inside(self) -> bool:
        """True if the handler is in another block of this batch, which leaves out what fails now."""
        return any(one.state == "inside" for one in self._others())

    def _refuse_a_second(self) -> None:
        """Two at once on one database would wait for each other, if they want the fence exclusively."""
        for one in self._others():
            if one.state in {"inside", "left"} and one.dialect is self.dialect and one.thread == self.thread:
                raise ConfigError(
                    "Another fenced transaction of this batch is still open on this database.",
                    next_step="Commit it before the next one begins.",
                )

    def _refuse_the_same_part(self, applied: set[int]) -> None:
        """What one block has applied, another of the same name would leave out."""
        for one in self._others():
            if one.part == self.part and one.state in {"committing", "committed"} and applied & {*one.positions}:
                raise ConfigError(
                    "This batch had a fenced transaction of this part before: its rows would be left out here.",
                    next_step='Give each block of a batch a name: fenced(connection, batch, part="lines").',
                )

    def _watch(self, connection: Connection) -> None:
        if connection in _WATCHED:
            _begins(connection)
        _WATCHED[connection] = self
        for name, listener in (("begin", _begins), ("commit", _commits), ("rollback", _rolls_back)):
            event.listen(connection, name, listener)
        event.listen(connection.engine, "handle_error", _fails)


def _begins(connection: Connection) -> None:
    """Another transaction: the last one has ended."""
    last = _WATCHED.pop(connection, None)
    if last is not None and last.state == "committing":
        last.problem()


def _commits(connection: Connection) -> None:
    watched = _WATCHED.get(connection)
    if watched is not None:
        watched.committing(connection)


def _rolls_back(connection: Connection) -> None:
    watched = _WATCHED.pop(connection, None)
    if watched is not None:
        watched.ended("rolled back")


def _fails(context: ExceptionContext) -> None:
    """A commit that failed: SQLAlchemy calls no other listener for it."""
    connection: Any = context.connection
    watched = None if connection is None else _WATCHED.get(connection)
    if watched is not None and watched.state == "committing" and context.statement is None:
        watched.ended("failed")
