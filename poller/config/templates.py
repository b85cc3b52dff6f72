"""What a poller has from others: `[defaults]` < `[templates.NAME]` < `[pollers.NAME]`, tables merged key by key.

    [templates.table]
    handler = "handlers:on_rows"
    [templates.table.source]
    url = "%SHOP_DB_URL%"
    cursor_column = "updated_at"
    pk_columns = ["id"]

    [pollers.orders]
    template = "table"
    source.table = "orders"

Each template is substituted and checked once, however many pollers it has, so that what is wrong with it is said once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from poller.config.includes import WrittenConfig
from poller.config.problems import at, explain_part
from poller.config.sqlite_paths import anchor
from poller.config.substitution import substitute
from poller.config.suggestions import suggestion
from poller.config.tables import PollerConfig
from poller.config.types import is_name
from poller.errors import ConfigError
from poller.model.escape import cut

DEFAULTS = ("defaults",)


class Inherited:
    """A configuration that yields each poller whole, with its settings in place."""

    def __init__(self, written: WrittenConfig, environ: Mapping[str, str]) -> None:
        self.written = written
        self._environ = environ
        self._folder = written.file.resolve().parent
        self._defaults: dict[str, Any] | None = None
        self._templates: dict[str, dict[str, Any] | ConfigError] = {}

    def head(self) -> dict[str, Any]:
        """All but the pollers. Raises: ConfigError, also for wrong `[defaults]`."""
        of_pollers = {"defaults", "templates", "pollers"}
        tree = {key: value for key, value in self.written.tree.items() if key not in of_pollers}
        head: dict[str, Any] = substitute(tree, self._environ, file=str(self.written.file))
        _ = self.defaults
        if not isinstance(self.written.tree.get("templates", {}), dict):
            raise self._error(("templates",), "must be a table.")
        return head

    def poller(self, name: str) -> Any:
        """A poller with what it inherits, before it is checked. Raises: ConfigError, for a wrong template too."""
        place = ("pollers", name)
        own = self._substituted(place, self.written.table("pollers")[name])
        if not isinstance(own, dict):
            return own
        base = self._template(own["template"], (*place, "template")) if "template" in own else self.defaults
        return _filled(own, base)

    def check_templates(self) -> None:
        """Check those too that no poller has. Raises: ConfigError."""
        for name in self.written.table("templates"):
            self._known(name)

    @property
    def defaults(self) -> dict[str, Any]:
        """`[defaults]`. Raises: ConfigError."""
        if self._defaults is None:
            found = self._substituted(DEFAULTS, self.written.tree.get("defaults", {}))
            if not isinstance(found, dict):
                raise self._error(DEFAULTS, "must be a table.")
            if not isinstance(found.get("source", {}), dict):
                raise self._error((*DEFAULTS, "source"), "must be a table.")
            self._no_template(DEFAULTS, found)
            self._defaults = found
        return self._defaults

    # ------------------------------------------------------------------------------------------- where it is written

    def place(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Where a key of a poller stands: in its own table, its template's or the defaults'."""
        if path[:1] == ("pollers",) and at(self.written.tree, path) is None:
            for table in self.ancestors(path[1]) if len(path) > 2 else ():
                if at(self.written.tree, (*table, *path[2:])) is not None:
                    return (*table, *path[2:])
        return path

    def ancestors(self, name: str) -> Sequence[tuple[str, ...]]:
        """The tables that the poller inherits from, the nearest first."""
        template = substitute(at(self.written.tree, ("pollers", name, "template")), self._environ)
        return [("templates", template), DEFAULTS] if isinstance(template, str) else [DEFAULTS]

    # ------------------------------------------------------------------------------------------------------ templates

    def _template(self, name: Any, place: tuple[str, ...]) -> dict[str, Any]:
        """A template with the defaults below it. `place`: of the key that names it."""
        known = self.written.table("templates")
        if not isinstance(name, str):
            raise self._error(place, "must be a text in quotes.")
        if name not in known:
            there = suggestion(name, sorted(known)) if known else "; the configuration has no [templates.NAME]."
            what = repr(cut(name)) if name == at(self.written.tree, place) else "of that name"  # not out of a setting
            raise self._error(place, f"there is no template {what}{there}")
        return self._known(name)

    def _known(self, name: str) -> dict[str, Any]:
        if name not in self._templates:
            try:
                self._templates[name] = self._made(name)
            except ConfigError as error:
                self._templates[name] = error
        made = self._templates[name]
        if isinstance(made, ConfigError):
            raise made.with_traceback(None)
        return made

    def _made(self, name: str) -> dict[str, Any]:
        place = ("templates", name)
        if not is_name(name):
            raise self._error(place, "is not a valid name: 1 to 63 lower-case letters, digits and hyphens.")
        own = self._substituted(place, self.written.table("templates")[name])
        if not isinstance(own, dict):
            raise self._error(place, "must be a table.")
        self._no_template(place, own)
        problem = None
        try:
            PollerConfig.model_validate(own)
        except ValidationError as error:
            problem = explain_part(error, place, origin=self)
        if problem is not None:
            raise problem
        return _filled(own, self.defaults)

    def _no_template(self, place: tuple[str, ...], table: Mapping[str, Any]) -> None:
        if "template" in table:
            step = "Name it in the pollers that shall have it; put what all share into [defaults]."
            raise self._error((*place, "template"), "only a poller has a template.", step)

    def _substituted(self, place: tuple[str, ...], table: Any) -> Any:
        file = self.written.file_of(place)
        found = substitute(table, self._environ, key=".".join(place), file=file)
        if isinstance(found, dict):
            anchor(found.get("source"), self._folder)
        return found

    def _error(self, place: tuple[str, ...], text: str, next_step: str = "") -> ConfigError:
        key, file = ".".join(place), self.written.file_of(place)
        return ConfigError(f"{file}: {cut(key)}: {text}", key=key, file=file, next_step=next_step)


def _filled(own: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    both = {**base, **own}
    for name in own.keys() & base.keys():
        if isinstance(own[name], dict) and isinstance(base[name], dict):
            both[name] = _filled(own[name], base[name])
    return both
