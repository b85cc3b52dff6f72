"""A recipe as its reader follows it: its files are written into a folder, its SQL is run, its commands are typed.

A block is the file that the paragraph above it names last, where that ends with a colon; what goes "at the end of" a
file is written behind what the file has. Every block of the page, or of the sections that a test follows, must be used,
or the test fails.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import sqlalchemy as sa

from poller_cli.main import execute
from tests.repo.docs.blocks import ROOT, Block, blocks

_NAMED = re.compile(r"`([\w.-]+\.(?:toml|py|sql|json|txt))`")


def page(name: str) -> str:
    recipe = f"docs/recipes/{name}.md"
    return recipe if (ROOT / recipe).is_file() else f"docs/{name}.md"


def parts(path: str, *sections: str) -> list[Block]:
    """The blocks below these headings of a page; all of them if none is named."""
    starts = [
        (number, line[3:])
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
        if line.startswith("## ")
    ]
    assert {*sections} <= {title for _, title in starts}, f"{path} has no such section"

    def section(block: Block) -> str:
        return next((title for number, title in reversed(starts) if number < block.line), "")

    return [block for block in blocks(path) if not sections or section(block) in sections]


class Recipe:
    """A page's folder. `left` are the blocks that nothing has used yet."""

    def __init__(self, name: str, folder: Path, *sections: str, **environ: str) -> None:
        self.page, self.folder, self.environ = page(name), folder, environ
        self.left = parts(self.page, *sections)

    def write(self, *only: str) -> None:
        """The files that the page shows, or these of them."""
        for block in list(self.left):
            name = self.name_of(block)
            if name is not None and (not only or name in only):
                behind = "t the end of `" in self._above(block)
                with (self.folder / name).open("a" if behind else "w") as file:
                    file.write(f"\n{block.text}" if behind else block.text)
                self.left.remove(block)

    def name_of(self, block: Block) -> str | None:
        paragraph = self._above(block)
        found = _NAMED.findall(paragraph) if paragraph.endswith(":") else []
        return found[-1] if found else None

    def _above(self, block: Block) -> str:
        lines = (ROOT / self.page).read_text().splitlines()[: block.line - 1]
        return "\n".join(lines).rstrip().rpartition("\n\n")[2]

    def take(self, language: str) -> str:
        """The next block of a language that is no file."""
        block = next(one for one in self.left if one.language == language and self.name_of(one) is None)
        self.left.remove(block)
        return block.text

    def sql(self, url: str) -> None:
        """The next block of SQL, in that database."""
        run_sql(url, self.take("sql"))

    def type(self, commands: str | None = None, *, code: int = 0) -> str:
        """What commands print, on both streams; by default the page's next ones. `code`: with which each ends."""
        text = (self.take("bash") if commands is None else commands).replace("\\\n", "")
        return "".join(self._one(line, code) for line in text.splitlines() if line.strip())

    def replace(self, file: str, shown: str, own: str) -> None:
        """What a test has of its own instead, such as a name on a server that others use too."""
        text = (self.folder / file).read_text()
        assert shown in text
        (self.folder / file).write_text(text.replace(shown, own))

    def options(self, *lines: str) -> None:
        """Options of every poller, which make a test short."""
        path = self.folder / "poller.toml"
        path.write_text(
            re.sub(r"^(\[pollers\.[\w-]+\]\n)", "\\1" + "\n".join([*lines, ""]), path.read_text(), flags=re.MULTILINE)
        )

    def _one(self, command: str, code: int) -> str:
        # In this process: to start one takes longer than all that it does.
        command, _, into = command.partition(" > ")
        words = [os.path.expandvars(word) for word in shlex.split(command, comments=True)]
        printed = io.StringIO()
        with (
            contextlib.chdir(self.folder),
            patch.dict(os.environ, {"POLLER_OPERATOR": "ada", "NO_COLOR": "1", **self.environ}),
            patch("sys.stdin", io.StringIO()),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            contextlib.ExitStack() as made,
        ):
            if into:
                made.enter_context(contextlib.redirect_stdout(made.enter_context(Path(into).open("w"))))
            if words[0] == "poller":
                assert execute(words[1:]) == code, f"{command}: {printed.getvalue()}"
            elif words[0] == "python":
                with patch.object(sys, "argv", words[1:]):
                    runpy.run_path(words[1], run_name="__main__")
            elif words[0] == "sqlite3" and words[2] == "<":
                run_sql(f"sqlite:///{words[1]}", Path(words[3]).read_text())
            else:
                raise AssertionError(f"who types this? {command}")
        return printed.getvalue()

    def query(self, statement: str, database: str = "shop.db") -> list[tuple[Any, ...]]:
        """In a SQLite file of the folder."""
        with closing(sqlite3.connect(self.folder / database)) as connection, connection:
            return connection.execute(statement).fetchall()

    def age(self, *tables: str, column: str = "updated_at", database: str = "shop.db") -> None:
        """As if the reader had typed on for a minute: what was written this moment is below the bound by then."""
        for table in tables:
            self.query(f"UPDATE {table} SET {column} = strftime('%Y-%m-%d %H:%M:%f', {column}, '-1 minute')", database)


def run_sql(url: str, text: str) -> None:
    """Statements as a database's own client takes them."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sa.make_url(url).database or "")) as file, file:
            file.executescript(text)
        return
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    parts = [text] if url.startswith("postgresql") else re.split(r";\n", text)
    with engine.begin() as connection:
        for part in parts:
            if part.strip():
                connection.exec_driver_sql(part)


@contextlib.contextmanager
def follow(name: str, folder: Path, *sections: str, **environ: str) -> Iterator[Recipe]:
    """A recipe, or these sections of one, in a folder; `environ` as the reader has exported it."""
    recipe = Recipe(name, folder, *sections, **environ)
    yield recipe
    assert [block.where for block in recipe.left] == [], "shown, but not run"
