"""Cases that need one world: a test that tries them one after another in it, where `parametrize` would make a world for
each."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Test = Callable[..., None]


def cases(names: str | tuple[str, ...], given: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one test: what fails says with which case.

    Args:
        names: the parameters of the test that are no fixtures.
    """
    fields = (names,) if isinstance(names, str) else names

    def of_test(test: Test) -> Test:
        signature = inspect.signature(test)
        fixtures = [one for one in signature.parameters.values() if one.name not in fields]

        @functools.wraps(test)
        def each(**world: Any) -> None:
            for case in given:
                values = (case,) if isinstance(names, str) else case
                try:
                    test(**world, **dict(zip(fields, values, strict=True)))
                except BaseException as error:
                    error.add_note(f"with {dict(zip(fields, values, strict=True))}")
                    raise

        each.__signature__ = signature.replace(parameters=fixtures)  # type: ignore[attr-defined]
        return each

    return of_test
