"""The stage of the show about a poison row: one flight in mid-stream that the handler cannot handle."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from poller_cli.demo.scene import Scene, flights, key_of

MAX_ATTEMPTS = 2
BATCH_SIZE = 200

_QUARANTINE = f"""\
handler = "poller_cli.demo.poison_handler:record"
schedule = "* * * * * *"
batch_size = {BATCH_SIZE}
on_poison = "quarantine"
max_attempts = {MAX_ATTEMPTS}       # by default 5
retry_backoff = "250ms"        # by default 1 s: the show is short
retry_backoff_max = "1s"
ordering_key = ["tailnum"]     # flights of one aircraft stay in order
"""


@dataclass(frozen=True, slots=True)
class PoisonScene(Scene):
    """The folder of one such show."""

    @property
    def fixed(self) -> Path:
        """Once this file exists, the handler can handle every flight."""
        return self.folder / "fixed"

    @property
    def poison(self) -> Path:
        """Holds the key of the flight that the handler cannot handle."""
        return self.folder / "poison"

    def poison_key(self) -> str:
        """The key of that flight."""
        return self.poison.read_text(encoding="utf-8")

    def build(self) -> None:
        """Make the table and the configuration, and choose the flight."""
        Scene.build(self)
        text = self.config.read_text(encoding="utf-8")
        before, _, rest = text.partition("handler = ")
        source = rest.partition("\n\n")[2]
        self.config.write_text(f"{before}{_QUARANTINE}\n{source}", encoding="utf-8")
        self.poison.write_text(key_of(poison_flight()), encoding="utf-8")


def poison_flight() -> dict[str, str]:
    """A flight in the middle of the month whose aircraft is known, and flies again."""
    rows = list(flights())
    return next(row for row in rows[len(rows) // 2 :] if len(same_aircraft(rows, row)) > 1)


def same_aircraft(rows: list[dict[str, str]], flight: dict[str, str]) -> list[dict[str, str]]:
    """The flight and all later ones of its aircraft, in time order."""
    first = rows.index(flight)
    return [row for row in rows[first:] if row["tailnum"] and row["tailnum"] == flight["tailnum"]]
