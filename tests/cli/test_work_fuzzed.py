"""Arguments of the commands that work, look or set up, as fingers and scripts make them."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import strategies as st

from poller_cli.output.models import DemoOutput
from tests.cli.console import Console
from tests.cli.fuzzing import ANY_BUT_USAGE, FAILED, JUNK, NAME, SECRET, TEXT, fuzzed, mostly, nearly, some_of
from tests.cli.project import Ended
from tests.support.waiting import row_id

MOMENT = nearly("2026-01-01 00:00:00", "2026-01-01 00:00:01", "2026-01-01", "1970-01-01")
URL = nearly(
    "sqlite:///shop.db",
    "sqlite:///shop.db",
    "sqlite:///shop.db",
    "sqlite:///nobody.db",
    "%NOT_SET%",
    f"postgresql+psycopg://reader:{SECRET}@127.0.0.1:1/shop",
)
SHOW = DemoOutput(
    rows_written=1,
    rows_delivered=1,
    missing=0,
    delivered_twice=0,
    killed_batch_rows=1,
    twice_outside_killed_batch=0,
    token_before_kill=1,
    token_after_takeover=2,
    takeover_seconds=5.0,
    elapsed_seconds=30.0,
    ok=True,
)


def maybe(*words: str | st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """All of them, or none."""
    whole = st.tuples(*(st.just(word) if isinstance(word, str) else word for word in words)).map(list)
    return st.one_of(st.just([]), whole)


def joined(*parts: str | st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    lists = [st.just([part]) if isinstance(part, str) else part for part in parts]
    return st.tuples(*lists, JUNK).map(lambda found: [word for part in found for word in part])


ONE_NAME = NAME.map(lambda name: [name])
NAMES = st.lists(NAME, max_size=2)
MODE = st.sampled_from([["--once"], ["--until-idle"], ["--once"], ["--once", "--until-idle"]])


def test_run(crowded_console: Console) -> None:
    fuzzed(crowded_console, joined("run", MODE, ONE_NAME, some_of()), changing=FAILED)


def test_run_of_several(crowded_console: Console) -> None:
    fuzzed(crowded_console, joined("run", MODE, NAMES, some_of()), changing=ANY_BUT_USAGE)


@pytest.mark.parametrize("kind", ["status", "check"])
def test_status_and_check(crowded_console: Console, kind: str) -> None:
    fuzzed(crowded_console, joined(kind, NAMES, some_of()), only_looks=True)


def test_watch(crowded_console: Console) -> None:
    looks = joined("watch", "--count", "1", maybe("--interval", nearly("50ms")), NAMES, some_of())
    fuzzed(crowded_console, looks, only_looks=True)


def test_recheck(crowded_console: Console) -> None:
    since = maybe("--since", nearly("2h", "1s", "0s", "-1h", "99999999d"))
    fuzzed(
        crowded_console,
        joined("recheck", ONE_NAME, since, some_of("--redeliver", "--yes", "--dry-run")),
        changing=FAILED,
    )


def test_quarantine_replay(crowded_console: Console) -> None:
    which = st.one_of(
        st.just(["--all"]),
        nearly(row_id(2), row_id(3), row_id(4)).map(lambda id_: ["--id", id_]),
        nearly("id=c", "id=4").map(lambda pair: ["--key", pair]),
    )
    flags = some_of("--current", "--as-it-was", "--as-it-was", "--dry-run")
    # A row that is refused is refused under the lease.
    fuzzed(
        crowded_console,
        joined("quarantine", st.just(["replay"]), ONE_NAME, which, mostly("--yes"), flags),
        changing=ANY_BUT_USAGE,
    )


def test_backfill(crowded_console: Console) -> None:
    any_ends = st.tuples(st.just("--from"), MOMENT, st.just("--to"), MOMENT).map(list)
    ends = st.one_of(st.just(["--from", "2026-01-01", "--to", "2026-01-01 00:00:01"]), any_ends)
    as_one = maybe("--as", nearly("replay"))
    parts = maybe("--parallel", nearly("0", "1", "2", "33", "x"))
    flags = some_of("--dry-run", "--retry")
    fuzzed(crowded_console, joined("backfill", ONE_NAME, ends, as_one, parts, mostly("--yes"), flags), changing=FAILED)


def test_import(crowded_console: Console) -> None:
    blobs = nearly(
        *(f"azure-functions-db-{name}.json" for name in ("text", "text", "text", "two-keys", "at-work")), "poller.toml"
    )
    file = blobs.map(lambda name: [name])
    target = nearly("orders", "orders", "invoices").map(lambda name: ["--name", name])
    confirmed = mostly("--yes", "--overwrite", "--allow-skip")
    flags = some_of("--dry-run", "--break-lease")
    fuzzed(crowded_console, joined("import", "azure-functions-db", file, target, confirmed, flags))


def test_init(crowded_console: Console) -> None:
    where = st.sampled_from([["-c", "new/poller.toml"], ["-c", "other.toml"], [], ["-c", "."], ["-c", "shop.db"]])
    anywhere = st.tuples(where, URL).map(lambda both: [*both[0], "--url", both[1]])
    new = st.just(["-c", "new/poller.toml", "--url", "sqlite:///../shop.db"])
    table: st.SearchStrategy[list[str]] = st.one_of(nearly("orders").map(lambda name: ["--table", name]), st.just([]))
    more = st.one_of(
        *(
            maybe(option, nearly(*right))
            for option, right in {
                "--cursor": ("updated_at", "id"),
                "--pk": ("id", "updated_at"),
                "--time-zone": ("UTC", "Europe/Berlin"),
                "--name": ("orders",),
                "--app": ("shop",),
                "--state": ("sql", "blob"),
                "--schema": ("main",),
            }.items()
        )
    )
    fuzzed(
        crowded_console,
        joined("init", st.one_of(new, anywhere), table, more, some_of("--yes", "--force")),
        only_looks=True,
    )


def test_schema_export(crowded_console: Console) -> None:
    directory = maybe("--directory", nearly("schemas", "new/deep", "handlers.py", "/dev/null/x"))
    fuzzed(crowded_console, joined("schema", "export", directory, some_of("--check")), only_looks=True)


def test_demo(crowded_console: Console) -> None:
    """But for the show itself, which takes half a minute: test_demo.py runs that."""

    def it_began_or_was_refused(ended: Ended) -> None:
        assert shown.called is (ended.code == 0)
        shown.reset_mock()

    with patch("poller_cli.demo.play.Play.perform", return_value=SHOW) as shown:
        words: st.SearchStrategy[list[str]] = st.one_of(st.just([]), st.just([]), st.lists(TEXT, max_size=2))
        fuzzed(
            crowded_console,
            joined("demo", words, some_of("-c=nowhere.toml")),
            only_looks=True,
            also=it_began_or_was_refused,
        )


def test_sink_ddl(crowded_console: Console) -> None:
    target = nearly("mariadb://", "postgresql://", "sqlite://", f"mysql://clerk:{SECRET}@db/shop", "oracle://", "shop")
    fuzzed(crowded_console, joined("sink", "ddl", target.map(lambda url: [url]), some_of()), only_looks=True)
