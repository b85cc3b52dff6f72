"""`status` and `check` of more pollers than anybody reads one by one: what is wrong, and how many stand how."""

from __future__ import annotations

from poller_cli.output.many import MANY, total
from tests.cli.project import Project

COUNT = MANY + 2


def shop(project: Project) -> Project:
    names = [f"t-{n:02d}" for n in range(COUNT)]
    text = 'app_name = "shop"\n[state]\nstore = "sql"\n[templates.all]\nhandler = "handlers:handle"\n'
    text += (
        '[templates.all.source]\nurl = "sqlite:///shop.db"\ncursor_column = "updated_at"\ncursor_time_zone = "UTC"\n'
    )
    text += 'pk_columns = ["id"]\n'
    for name in names:
        table = name.replace("-", "_")
        project.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY NOT NULL, updated_at TEXT NOT NULL)")
        text += f'[pollers.{name}]\ntemplate = "all"\nsource.table = "{table}"\n'
    project.write(text, "def handle(batch): pass\n")
    return project


def test_a_line_names_those_that_are_not_like_most() -> None:
    words = {f"p{n}": "idle" for n in range(1200)} | {"a": "halted"} | {f"q{n}": "paused" for n in range(7)}
    assert total(words) == "1,208 pollers: 1,200 idle; 7 paused (q0, q1, q2, q3, q4 and 2 more); 1 halted (a)"
    assert total({"a": "idle"}) == "1 pollers: 1 idle"


def test_the_status_of_many_ends_with_how_many_stand_how(project: Project) -> None:
    shop(project)
    assert project.run("run", "--once").code == 0
    assert project.run("pause", "t-03", "--yes").code == 0
    ended = project.run("status")
    table, last = ended.out.split("\n\n")
    last, advice = last.splitlines()
    head, *lines = table.splitlines()
    assert head.startswith("POLLER ")
    others = [f"t-{n:02d}" for n in range(COUNT) if n != 3]
    assert [line.split()[0] for line in lines] == ["t-03", *others], "the worst first"
    assert lines[0].split()[1] == "paused"
    assert last == f"{COUNT} pollers: {COUNT - 1} idle; 1 paused (t-03)"
    assert advice.startswith("What to do: poller ")
    assert advice.endswith("status t-03")
    assert " pollers: " not in project.run("status", "t-03").out


def test_the_check_of_many_shows_what_is_wrong(project: Project) -> None:
    shop(project)
    project.execute("DROP TABLE t_03")
    ended = project.run("check")
    assert ended.code == 1
    *blocks, last = ended.out.split("\n\n")
    assert [block.split()[0] for block in blocks] == [f"t-{n:02d}" for n in range(COUNT)], "in the file's order"
    assert ended.out.count("\n  ok ") == COUNT, "what is well with one is one line"
    assert last.startswith(f"{COUNT} pollers: {COUNT - 1} with warnings; 1 with errors (t-03)")
    assert project.run("check", "t-02", "-v").out.count("\n  ok ") > 1
    found = project.run("check", "--json").json["pollers"]
    assert all(any(one["severity"] == "ok" for one in poller["findings"]) for poller in found)
