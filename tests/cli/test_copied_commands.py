"""The commands that errors name can be copied: with the configuration that was given by -c."""

from __future__ import annotations

from tests.cli.project import Project


def test_an_error_names_its_command_with_the_configuration(project: Project) -> None:
    project.configure("orders", handlers="def handle(batch): raise ValueError()\n", poller="max_attempts = 1")
    project.insert(5)
    config = project.folder / "my shop.toml"
    (project.folder / "poller.toml").rename(config)
    option = f"poller -c '{config}'"
    assert f"{option} resume orders" in project.run("-c", str(config), "run", "--once").err
    assert f"{option} resume orders" in project.run("run", "--once", "-c", str(config)).err
    project.execute("ALTER TABLE orders RENAME TO sales")
    config.write_text(config.read_text().replace('table = "orders"', 'table = "sales"'))
    mismatch = project.run("-c", str(config), "peek", "orders")
    assert (mismatch.code, f"{option} rebind orders" in mismatch.err) == (4, True), mismatch.err
    project.environ["POLLER_CONFIG"] = str(config)
    assert "poller rebind orders" in project.run("peek", "orders").err
