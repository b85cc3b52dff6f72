"""Long texts are cut first and looked through afterwards, and the cut leaves no half of a secret behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from poller.handler.traces import shown, trace_of
from poller.model import redact as module
from poller.model.redact import BEYOND, LIMIT, LONGEST_SECRET, error_line, first_line, said, shortened
from tests.support.hostile import Hostile

SECRET = "S3cr3tS3cr3t"
HALVES: list[Callable[[int], str]] = [
    lambda size: f"postgresql://shop:{SECRET * size}@db/shop",
    lambda size: f"eyJhbGciOiJIUzI1NiJ9.{SECRET * size}.c2lnbmF0dXJl",
    lambda size: f"AccountKey={SECRET * size}",
    lambda size: f"Authorization: Bearer {SECRET * size}",
    lambda size: f'{{"password": "{SECRET * size}"}}',
]


@pytest.fixture
def looked_through(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters were looked through, call by call."""
    seen: list[int] = []
    redact = module.redact

    def counted(text: str) -> str:
        seen.append(len(text))
        return redact(text)

    monkeypatch.setattr(module, "redact", counted)
    return seen


@pytest.mark.parametrize("text", ["y" * 5_000_000, "row " * 1_250_000, "\n" * 4_999_999 + "y", "a\n" * 2_500_000])
def test_a_text_of_five_million_characters_is_cut_first(looked_through: list[int], text: str) -> None:
    assert 0 < len(first_line(text)) <= LIMIT
    assert sum(looked_through) <= LIMIT + BEYOND


@pytest.mark.parametrize("secret", HALVES)
def test_a_secret_that_the_cut_goes_through_is_not_shown(secret: Callable[[int], str]) -> None:
    """Wherever it begins, also where secrets before it became shorter and brought it into sight."""
    for shrinks in ("", f"pwd={'x' * (BEYOND - 200)} ", f"token={'x' * BEYOND}&a="):
        for begins in (0, 150, LIMIT - 13, LIMIT, *(LIMIT + BEYOND - back for back in (4_000, 2_401, 100, 13, 2))):
            text = (shrinks + "word " * BEYOND)[:begins] + " " + secret(200) + " more" * 5_000
            assert "S3cr3t" not in first_line(text), (shrinks[:10], begins)


def test_what_is_kept_is_what_was_kept_before() -> None:
    assert first_line("\n\n  no such customer: 7 \n second") == "no such customer: 7"
    assert first_line("") == first_line(" \n\t\n") == ""
    assert first_line("x" * 301) == "x" * 299 + "…"
    assert first_line("x" * 300) == "x" * 300
    assert first_line("x" * 100_000) == "x" * 299 + "…"
    assert shortened("pwd=" + "x" * 400, 300) == "pwd=***"
    assert LONGEST_SECRET < BEYOND


@pytest.mark.parametrize("raised", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, RecursionError])
def test_an_error_whose_text_raises_anything_has_none(raised: type[BaseException]) -> None:
    error = Hostile(raised())
    assert said(error) == error_line(error) == ""
    assert "Hostile" in trace_of(error)


def test_an_error_whose_notes_raise_is_shown_by_its_type() -> None:
    def notes(_: object) -> list[str]:
        raise SystemExit(3)

    assert trace_of(type("Noted", (Exception,), {"__notes__": property(notes)})("x")) == "Noted"


def raised(message: str) -> BaseException:
    try:
        raise ValueError(message)
    except ValueError as error:
        return error


@pytest.mark.parametrize("message", ["y" * 5_000_000, "row\n" * 1_250_000, ("z" * 3_999 + "\n") * 1_300])
def test_a_traceback_is_bounded_before_it_is_looked_through(message: str) -> None:
    trace = trace_of(raised(message))
    assert len(trace) <= 50_000
    assert "ValueError" in shown(trace)


@pytest.mark.parametrize("secret", HALVES)
def test_a_traceback_shows_no_half_of_a_secret(secret: Callable[[int], str]) -> None:
    for begins in (0, 980, 1_576, 3_600, 4_990):
        line = ("pwd=" + "x" * 3_500 + " " + "word " * 1_000)[:begins] + " " + secret(200)
        assert "S3cr3t" not in shown(trace_of(raised(line))), begins


def test_a_private_key_whose_beginning_was_left_out_is_not_shown() -> None:
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *[SECRET * 4] * 400, "-----END PRIVATE KEY-----", "after it"])
    printed = shown(trace_of(raised("word\n" * 150 + key)))
    assert "S3cr3t" not in printed
    assert "after it" in printed
