"""`fenced`: each row of a batch is applied once, and what a handler leaves open makes its batch fail."""

from __future__ import annotations

import contextlib

import pytest
from sqlalchemy import Engine, event, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from poller import Batch, ConfigError, Fenced, PollerError, Reject
from poller.handler import HandlerFailure, InvalidReport
from poller.sinks.sql import fenced
from poller_cli.main import execute
from tests.integration.sinks.target import (
    ARRIVED,
    apply,
    arrived,
    batch_of,
    engine_of,
    handler,
    id_of,
    ids,
    ledger,
    run,
    target,
)

# --- once -------------------------------------------------------------------------------------------------------------


def test_a_batch_that_comes_again_is_applied_once(shop: Engine) -> None:
    for token in (1, 2):
        run(batch_of([1, 2, 3], token=token), handler(shop))
    assert ids(shop) == [1, 2, 3]


def test_of_a_batch_that_is_cut_otherwise_only_the_rest_is_applied(shop: Engine) -> None:
    run(batch_of([1, 2, 3]), handler(shop))
    run(batch_of([2, 3, 4, 5], token=2, through=5), handler(shop))
    assert ids(shop) == [1, 2, 3, 4, 5]


def test_a_newer_version_of_a_row_is_applied(shop: Engine) -> None:
    run(batch_of([1, 2]), handler(shop))
    run(batch_of([2], version=2, through=3), handler(shop))
    assert arrived(shop) == {(1, 1): 1, (2, 1): 1, (2, 2): 1}


def test_what_was_rolled_back_is_applied_when_it_comes_again(shop: Engine) -> None:
    def fails(batch: Batch) -> None:
        handler(shop)(batch)
        with shop.begin() as connection, fenced(connection, batch, part="lines") as fresh:
            apply(connection, fresh)
            raise RuntimeError("the mail server is away")

    with pytest.raises(RuntimeError, match="mail server"):
        run(batch_of([1, 2]), fails)
    assert ids(shop) == [1, 2]

    def works(batch: Batch) -> None:
        handler(shop)(batch)
        handler(shop, "lines")(batch)

    run(batch_of([1, 2], token=2), works)
    assert ids(shop) == [1, 1, 2, 2], "each part has applied each row once"


def test_after_a_reset_every_row_is_applied_again(shop: Engine) -> None:
    run(batch_of([1, 2]), handler(shop))
    run(batch_of([1, 2], token=2, generation=1), handler(shop))
    assert ids(shop) == [1, 1, 2, 2]


def test_pollers_and_apps_of_one_target_do_not_share_a_ledger(sqlite_shop: Engine) -> None:
    run(batch_of([1], token=7), handler(sqlite_shop))
    run(batch_of([1], token=1, poller="lines"), handler(sqlite_shop))
    run(batch_of([1], token=1, app_name="mall"), handler(sqlite_shop))
    assert ids(sqlite_shop) == [1, 1, 1]


def test_a_session_of_the_orm_may_hold_the_transaction(sqlite_shop: Engine) -> None:
    def handle(batch: Batch) -> None:
        with Session(sqlite_shop) as session, session.begin(), fenced(session.connection(), batch) as fresh:
            apply(session.connection(), fresh)

    for token in (1, 2):
        run(batch_of([1], token=token), handle)
    assert ids(sqlite_shop) == [1]


def test_a_connection_may_be_kept_from_batch_to_batch(sqlite_shop: Engine) -> None:
    with sqlite_shop.connect() as connection:

        def handle(batch: Batch) -> None:
            with fenced(connection, batch) as fresh:
                apply(connection, fresh)
            connection.commit()

        for token in (1, 2, 3):
            run(batch_of([1, token + 1], token=token, through=4), handle)
    assert ids(sqlite_shop) == [1, 2, 3, 4]


# --- fenced -----------------------------------------------------------------------------------------------------------


def test_a_stale_owner_is_fenced_and_writes_nothing(shop: Engine) -> None:
    run(batch_of([1], token=8), handler(shop))
    with pytest.raises(Fenced, match="under token 8; this one has 7") as error:
        run(batch_of([2], token=7), handler(shop))
    assert (error.value.fencing_token, error.value.standing_token) == (7, 8)
    assert "poller reset-to-checkpoint orders FILE --token-at-least 8" in str(error.value)
    assert ids(shop) == [1]


def test_a_stale_owner_is_fenced_where_it_has_written_before(shop: Engine) -> None:
    run(batch_of([1], token=7, untried=True), handler(shop))
    run(batch_of([2], token=8), handler(engine_of(shop.url.render_as_string(False))))
    with pytest.raises(Fenced):
        run(batch_of([3], token=7, untried=True), handler(shop))
    assert ids(shop) == [1, 2]


def test_a_handler_that_swallows_it_has_failed(sqlite_shop: Engine) -> None:
    run(batch_of([1], token=8), handler(sqlite_shop))

    def swallows(batch: Batch) -> None:
        with contextlib.suppress(Fenced):
            handler(sqlite_shop)(batch)

    with pytest.raises(HandlerFailure, match="was rolled back"):
        run(batch_of([2], token=7), swallows)


def test_a_fence_that_was_restored_lower_is_raised_again(shop: Engine) -> None:
    run(batch_of([1], token=7, untried=True), handler(shop))
    with shop.begin() as connection:
        connection.exec_driver_sql("UPDATE poller_fence SET token = 3")
    run(batch_of([2], token=7, untried=True), handler(shop))
    with shop.begin() as connection:
        connection.exec_driver_sql("DELETE FROM poller_fence")
    run(batch_of([3], token=7, untried=True), handler(shop))
    with shop.connect() as connection:
        assert connection.exec_driver_sql("SELECT token FROM poller_fence").scalars().all() == [7]
    assert ids(shop) == [1, 2, 3]


# --- what a handler leaves open ---------------------------------------------------------------------------------------


def test_a_handler_that_does_not_commit_has_failed(sqlite_shop: Engine) -> None:
    connection = sqlite_shop.connect()

    def forgets(batch: Batch) -> None:
        with fenced(connection, batch) as fresh:
            apply(connection, fresh)

    with pytest.raises(HandlerFailure, match="a fenced transaction was not committed"):
        run(batch_of([1]), forgets)
    connection.close()
    run(batch_of([1], token=2), handler(sqlite_shop))
    assert ids(sqlite_shop) == [1]


def test_a_handler_that_rolls_back_has_failed(sqlite_shop: Engine) -> None:
    def rolls_back(batch: Batch) -> None:
        with sqlite_shop.connect() as connection:
            with fenced(connection, batch, part="lines") as fresh:
                apply(connection, fresh)
            connection.rollback()

    with pytest.raises(HandlerFailure, match=r"a fenced transaction \(part 'lines'\) was rolled back"):
        run(batch_of([1]), rolls_back)
    assert ids(sqlite_shop) == []


def test_a_handler_that_swallows_an_error_of_its_block_has_failed(sqlite_shop: Engine) -> None:
    """Half of the block's work would be committed, and none of it noted."""

    def swallows(batch: Batch) -> None:
        with sqlite_shop.begin() as connection:
            try:
                with fenced(connection, batch) as fresh:
                    apply(connection, fresh)
                    raise KeyError("total")
            except KeyError:
                pass

    with pytest.raises(PollerError, match="nothing of it is committed"):
        run(batch_of([1]), swallows)
    assert ids(sqlite_shop) == []


def test_a_commit_inside_the_block_is_refused(sqlite_shop: Engine) -> None:
    def commits(batch: Batch) -> None:
        with sqlite_shop.connect() as connection, fenced(connection, batch) as fresh:
            apply(connection, fresh)
            connection.commit()

    with pytest.raises(PollerError, match="still in its block"):
        run(batch_of([1]), commits)
    assert ids(sqlite_shop) == []


def test_a_handler_may_try_its_transaction_again(sqlite_shop: Engine) -> None:
    tries: list[int] = []

    def handle(batch: Batch) -> None:
        for number in (1, 2):
            try:
                with sqlite_shop.begin() as connection, fenced(connection, batch) as fresh:
                    apply(connection, fresh)
                    tries.append(number)
                    if number == 1:
                        raise TimeoutError
                    return
            except TimeoutError:
                continue

    run(batch_of([1, 2]), handle)
    assert (tries, ids(sqlite_shop)) == ([1, 2], [1, 2])


def test_a_commit_that_failed_is_a_failure_though_swallowed(postgres_shop: Engine) -> None:
    with postgres_shop.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE arrived ADD CONSTRAINT once UNIQUE (id) DEFERRABLE INITIALLY DEFERRED")
    run(batch_of([1]), handler(postgres_shop))

    def swallows(batch: Batch) -> None:
        with contextlib.suppress(DBAPIError):
            handler(postgres_shop)(batch)

    with pytest.raises(HandlerFailure, match="a fenced transaction failed"):
        run(batch_of([1], token=2, generation=1), swallows)
    assert ids(postgres_shop) == [1]


def test_an_error_swallowed_after_the_block_commits_nothing(postgres_shop: Engine) -> None:
    """PostgreSQL answers the COMMIT of a broken transaction with ROLLBACK, and psycopg raises nothing."""

    def swallows(batch: Batch) -> None:
        with postgres_shop.begin() as connection:
            with fenced(connection, batch) as fresh:
                apply(connection, fresh)
            with contextlib.suppress(DBAPIError):
                connection.exec_driver_sql("SELECT 1 / 0")

    with pytest.raises(PollerError, match="rolled back by the database"):
        run(batch_of([1]), swallows)
    run(batch_of([1], token=2), handler(postgres_shop))
    assert ids(postgres_shop) == [1]


@pytest.mark.parametrize("after", ["inside", "behind"])
def test_a_victim_of_a_deadlock_that_goes_on_commits_nothing(mariadb_shop: Engine, after: str) -> None:
    """MariaDB rolls the whole transaction back, and what follows is in a new one: without fence, and without what was
    applied before."""

    def goes_on(batch: Batch) -> None:
        with mariadb_shop.begin() as connection:
            with fenced(connection, batch) as fresh:
                apply(connection, fresh[:1])
                if after == "inside":
                    connection.exec_driver_sql("ROLLBACK")  # what the database does to a victim
                    apply(connection, fresh[1:])
                    batch.fail(fresh[0], "deadlock found")
            if after == "behind":
                connection.exec_driver_sql("ROLLBACK")
                apply(connection, fresh[1:])

    with pytest.raises(PollerError, match="nothing of it is committed"):
        run(batch_of([1, 2]), goes_on)
    assert ids(mariadb_shop) == []
    run(batch_of([1, 2], token=2), handler(mariadb_shop))
    assert ids(mariadb_shop) == [1, 2]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_autocommit_is_refused(sqlite_shop: Engine) -> None:
    with pytest.raises(ConfigError, match="AUTOCOMMIT"):
        run(batch_of([1]), handler(sqlite_shop.execution_options(isolation_level="AUTOCOMMIT")))
    assert ids(sqlite_shop) == []


def test_a_savepoint_is_refused(sqlite_shop: Engine) -> None:
    def handle(batch: Batch) -> None:
        with sqlite_shop.begin() as connection, connection.begin_nested(), fenced(connection, batch):
            pass

    with pytest.raises(ConfigError, match="savepoint"):
        run(batch_of([1]), handle)


def test_a_two_phase_transaction_is_refused(postgres_shop: Engine) -> None:
    """It would be committed by somebody, some time after the handler returned."""

    def handle(batch: Batch) -> None:
        with postgres_shop.connect() as connection, connection.begin_twophase(), fenced(connection, batch):
            pass

    with pytest.raises(ConfigError, match="two-phase"):
        run(batch_of([1]), handle)


def test_savepoints_inside_the_block_are_the_handlers_own(sqlite_shop: Engine) -> None:
    def handle(batch: Batch) -> None:
        with sqlite_shop.begin() as connection, fenced(connection, batch) as fresh:
            for row in fresh:
                saved = connection.begin_nested()
                apply(connection, [row])
                if row["id"] == 2:
                    saved.rollback()
                else:
                    saved.commit()

    run(batch_of([1, 2, 3]), handle)
    assert ids(sqlite_shop) == [1, 3]


@pytest.mark.parametrize("shop", ["postgres", "mariadb", "mysql"], indirect=True)
def test_a_statement_before_the_fence_is_refused(shop: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    def reads_first(batch: Batch) -> None:
        with shop.begin() as connection:
            connection.execute(select(ARRIVED)).all()
            with fenced(connection, batch):
                pass

    with pytest.raises(ConfigError, match="the first thing in its transaction"):
        run(batch_of([1]), reads_first)


def test_sqlites_recipe_to_begin_at_once_is_accepted(sqlite_url: str) -> None:
    with target(sqlite_url) as engine:
        event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE") and None)
        for token in (1, 2):
            run(batch_of([1], token=token), handler(engine))
        assert ids(engine) == [1]


def test_sqlite_does_not_write_behind_what_it_has_read(sqlite_url: str) -> None:
    """So nothing needs to be asked there: what was read before the fence is still so."""
    with target(sqlite_url) as engine:
        with engine.connect() as wal:
            wal.exec_driver_sql("PRAGMA journal_mode = WAL")
        run(batch_of([3], token=1), handler(engine))
        event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN") and None)

        def reads_first(batch: Batch) -> None:
            with engine.begin() as connection:
                connection.execute(select(ARRIVED)).all()
                run(batch_of([2], token=1), handler(engine_of(sqlite_url)))
                with fenced(connection, batch) as fresh:
                    apply(connection, fresh)

        with pytest.raises(DBAPIError, match="locked"):
            run(batch_of([1], token=2), reads_first)
        assert ids(engine) == [2, 3]


def test_a_second_block_of_the_same_part_is_refused(sqlite_shop: Engine) -> None:
    def handle(batch: Batch) -> None:
        handler(sqlite_shop)(batch)
        handler(sqlite_shop)(batch)

    with pytest.raises(ConfigError, match='part="lines"'):
        run(batch_of([1]), handle)


def test_two_blocks_may_not_be_open_at_once_on_one_database(sqlite_shop: Engine) -> None:
    """They would wait for each other."""

    def handle(batch: Batch) -> None:
        with (
            sqlite_shop.begin() as one,
            fenced(one, batch, part="orders"),
            sqlite_shop.begin() as other,
            fenced(other, batch, part="lines"),
        ):
            pass

    with pytest.raises(ConfigError, match="still open"):
        run(batch_of([1]), handle)


def test_what_is_not_a_connection_is_refused_with_what_is(sqlite_shop: Engine) -> None:
    with Session(sqlite_shop) as session, pytest.raises(TypeError, match=r"session\.connection\(\)"):
        fenced(session, batch_of([1])).__enter__()  # type: ignore[arg-type]


@pytest.mark.parametrize("shop", ["postgres", "mariadb"], indirect=True)
def test_a_pool_that_looks_at_its_connections_is_accepted(shop: Engine) -> None:
    url = shop.url.render_as_string(hide_password=False)
    engine = engine_of(url, pool_pre_ping=True, pool_size=1)
    for token in (1, 2, 3):
        run(batch_of([1, token], token=token, through=3), handler(engine))
    engine.dispose()
    assert ids(shop) == [1, 1, 2, 3]


def test_a_part_is_a_short_name(sqlite_shop: Engine) -> None:
    with pytest.raises(ValueError, match="up to 64 letters"):
        run(batch_of([1]), handler(sqlite_shop, "order lines"))


# --- rows that fail ---------------------------------------------------------------------------------------------------


def test_a_row_that_failed_in_the_block_is_not_noted(sqlite_shop: Engine) -> None:
    def handle(batch: Batch) -> None:
        with sqlite_shop.begin() as connection, fenced(connection, batch) as fresh:
            apply(connection, [row for row in fresh if row["id"] != 2])
            batch.fail(batch.rows[1], "no address")

    with pytest.raises(HandlerFailure, match="1 of 3 rows failed"):
        run(batch_of([1, 2, 3]), handle)
    run(batch_of([1, 2, 3], token=2), handler(sqlite_shop))
    assert ids(sqlite_shop) == [1, 2, 3]


def test_a_row_that_failed_before_the_block_is_not_applied(sqlite_shop: Engine) -> None:
    batch = batch_of([1, 2])
    batch.reject(batch.rows[0], "no address")
    handler(sqlite_shop)(batch)
    assert ids(sqlite_shop) == [2]


def test_a_row_cannot_fail_after_the_block(sqlite_shop: Engine) -> None:
    def handle(batch: Batch) -> None:
        handler(sqlite_shop)(batch)
        batch.fail(batch.rows[0], "too late")

    with pytest.raises(ValueError, match="before the sink's block ends"):
        run(batch_of([1, 2]), handle)


def test_a_row_cannot_be_returned_as_failed_after_the_block(sqlite_shop: Engine) -> None:
    def handle(batch: Batch) -> object:
        handler(sqlite_shop)(batch)
        return {"batchItemFailures": [{"itemIdentifier": batch.key(batch.rows[1])}]}

    with pytest.raises(InvalidReport, match=r"Row 2 of 2 .* a sink has noted it as applied"):
        run(batch_of([1, 2]), handle)


def test_a_row_that_is_rejected_in_the_block_undoes_it(sqlite_shop: Engine) -> None:
    def handle(batch: Batch) -> None:
        with sqlite_shop.begin() as connection, fenced(connection, batch) as fresh:
            apply(connection, fresh)
            raise Reject(batch.rows[1], "no address")

    with pytest.raises(Reject, match="no address"):
        run(batch_of([1, 2]), handle)
    assert ids(sqlite_shop) == []


def test_a_row_may_fail_in_the_second_part(sqlite_shop: Engine) -> None:
    batch = batch_of([1, 2])
    handler(sqlite_shop, "orders")(batch)
    with sqlite_shop.begin() as connection, fenced(connection, batch, part="lines") as fresh:
        apply(connection, fresh[1:])
        batch.fail(fresh[0], "no lines")
    assert batch.unfinished() is None
    assert [(failure.position, failure.error) for failure in batch.failures] == [(0, "no lines")]
    again = batch_of([1, 2], token=2)
    handler(sqlite_shop, "orders")(again)
    handler(sqlite_shop, "lines")(again)
    assert ids(sqlite_shop) == [1, 1, 2, 2]


# --- what the ledger keeps --------------------------------------------------------------------------------------------


def test_what_cannot_come_again_is_forgotten(shop: Engine) -> None:
    for number in range(5):
        run(batch_of([number], settled=number, through=number + 1), handler(shop))
    assert ledger(shop) == [(5, 1)]


def test_batches_whose_commit_has_not_landed_are_kept(sqlite_shop: Engine) -> None:
    for number in range(5):
        run(batch_of([number], settled=max(0, number - 2), through=number + 1), handler(sqlite_shop))
    assert ledger(sqlite_shop) == [(3, 1), (4, 1), (5, 1)]


def test_what_earlier_tenures_left_becomes_one_entry(shop: Engine) -> None:
    """Else crashes would add one each while nothing is committed and rows move."""
    for token in range(1, 6):
        run(batch_of([token, token + 1], token=token, settled=1, through=2 + token % 2), handler(shop))
    assert (ids(shop), ledger(shop)) == ([1, 2, 3, 4, 5, 6], [(3, 6)])


def test_a_row_that_waits_is_remembered_behind_any_checkpoint(shop: Engine) -> None:
    first = batch_of([1, 2])
    run(first, handler(shop))
    held = frozenset([id_of(first, 1)])
    for number in range(3, 6):
        run(batch_of([number], settled=number - 1, through=number, held=held), handler(shop))
    assert ledger(shop) == [(5, 2)]
    run(batch_of([2], settled=5, through=5, held=held, token=2), handler(shop))
    assert ids(shop) == [1, 2, 3, 4, 5], "it was applied, and its handler killed"
    run(batch_of([6], settled=5, through=6, token=2), handler(shop))
    assert ledger(shop) == [(6, 1)], "it waits no longer"


def test_a_reset_forgets_but_for_rows_that_wait(shop: Engine) -> None:
    first = batch_of([1, 2])
    run(first, handler(shop))
    held = frozenset([id_of(first, 0)])
    run(batch_of([3], token=2, generation=1, held=held), handler(shop))
    assert ledger(shop) == [(1, 1), (2, 2)]
    run(batch_of([4], token=2, generation=1, through=2, settled=1), handler(shop))
    assert ledger(shop) == [(2, 1)]


def test_each_lane_forgets_its_own(sqlite_shop: Engine) -> None:
    for number in range(8):
        lane = number % 2
        run(
            batch_of([number], settled=number, through=number + 1, lane=lane, lanes=2, untried=True),
            handler(sqlite_shop),
        )
    assert ledger(sqlite_shop) == [(7, 1), (8, 1)]
    run(batch_of([8], settled=8, through=9, token=2), handler(sqlite_shop))
    assert ledger(sqlite_shop) == [(9, 1)], "one lane owns what two have left"


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_user_that_may_create_nothing_is_shown_the_command(
    postgres_shop: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    with postgres_shop.begin() as connection:
        for statement in (
            "CREATE ROLE clerk LOGIN",
            "REVOKE CREATE ON SCHEMA public FROM public",
            "GRANT ALL ON arrived TO clerk",
        ):
            connection.exec_driver_sql(statement)
    try:
        clerk = engine_of(postgres_shop.url.set(username="clerk").render_as_string(False), poolclass=NullPool)
        with pytest.raises(PollerError, match="poller sink ddl URL"):
            run(batch_of([1]), handler(clerk))
        with postgres_shop.begin() as connection:
            for statement in printed("postgresql://", capsys):
                connection.exec_driver_sql(statement)
            for table in ("poller_fence", "poller_applied"):
                connection.exec_driver_sql(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO clerk")
        for token in (1, 2):
            run(batch_of([1, token + 1], token=token, through=3), handler(clerk))
        assert ids(postgres_shop) == [1, 2, 3], "the rights that the page names are enough"
    finally:
        with postgres_shop.begin() as connection:
            connection.exec_driver_sql("DROP OWNED BY clerk")
            connection.exec_driver_sql("DROP ROLE clerk")


def printed(url: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What `poller sink ddl` prints, statement by statement."""
    assert execute(["sink", "ddl", url]) == 0
    return [statement for statement in capsys.readouterr().out.split(";") if statement.strip()]


def test_the_printed_statements_make_the_tables_that_are_used(shop: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    with shop.begin() as connection:
        for statement in printed(shop.url.render_as_string(False), capsys) * 2:
            connection.execute(text(statement))
    run(batch_of([1]), handler(shop))
    assert ids(shop) == [1]


def test_other_databases_are_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["sink", "ddl", "oracle://scott@h/d"]) != 0
    assert "A sink in oracle cannot be fenced" in capsys.readouterr().err
