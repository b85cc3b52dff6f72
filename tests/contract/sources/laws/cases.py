"""How a law is tried in several cases, by what the place of its class has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import pytest

from tests.contract.sources.place import Place

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """One: its id, the arguments of the test, and which run it is left to: `make soak`, or `make prove`."""

    id: str
    values: tuple[Any, ...]
    soak: bool = False
    prove: bool = False


def cases(names: str, of: Callable[[type[Place]], Iterable[Case]]) -> Callable[[_F], _F]:
    """The test has these arguments, in these cases of a kind of place; without any it is not run there."""

    def mark(test: _F) -> _F:
        test.__dict__["cases"] = names, of
        return test

    return mark


def once(test: _F) -> _F:
    """The law has one case."""
    return cases("case", lambda _: [Case("", ("",))])(test)


class Laws:
    """The base of all classes of laws. `kind`: of the place that the fixture `made` gives."""

    kind: type[Place]

    @pytest.fixture(scope="class")
    @classmethod
    def made(cls) -> Place:
        """The place, for all laws of the class."""
        raise NotImplementedError("a class of laws needs a fixture `made`")

    @pytest.fixture
    def place(self, made: Place) -> Place:
        """The place, empty."""
        made.clear()
        return made

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """The cases of each law, with the known losses marked."""
        found = metafunc.function.__dict__.get("cases")
        if found is None:
            return
        names, of = found
        law = metafunc.function.__name__
        metafunc.parametrize(names.split(", "), [self._parameter(law, case) for case in of(self.kind)])

    def _parameter(self, law: str, case: Case) -> Any:
        marks = [pytest.mark.prove] if case.prove else [pytest.mark.soak] if case.soak else []
        for pattern, why in self.kind.known.items():
            if fnmatchcase(f"{law}: {case.id}", pattern):
                marks.append(pytest.mark.xfail(strict=True, raises=AssertionError, reason=why))
        return pytest.param(*case.values, id=case.id, marks=marks)
