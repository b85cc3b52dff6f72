"""A template of Bicep as far as it can be read without its compiler: what it declares, and the text around that."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|'(?:\\.|\$\{|[^'\\])*'", re.DOTALL)
PAIRS = {"{": "}", "[": "]", "(": ")"}


def _strings(text: str) -> str:
    """The text without comments, and with every string cut down to what is interpolated in it."""

    def shown(found: re.Match[str]) -> str:
        inside = " ".join(re.findall(r"\$\{([^}]*)\}", found[0])) if found[0].startswith("'") else ""
        return f"'{inside}'" if inside else "''"

    return _TOKEN.sub(shown, text)


@dataclass(frozen=True)
class Template:
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def code(self) -> str:
        return _strings(self.text)

    @property
    def params(self) -> dict[str, bool]:
        """Whether each parameter must be given."""
        return {
            name: rest.strip() == "" for name, rest in re.findall(r"^param (\w+) \w+(.*)$", self.code, re.MULTILINE)
        }

    @property
    def secure(self) -> set[str]:
        return set(re.findall(r"^@secure\(\)\n(?:@.*\n)*param (\w+)", self.text, re.MULTILINE))

    @property
    def variables(self) -> set[str]:
        return set(re.findall(r"^var (\w+) =", self.text, re.MULTILINE))

    @property
    def outputs(self) -> dict[str, str]:
        """Each output's expression."""
        return dict(re.findall(r"^output (\w+) \w+ = (.*)$", self.text, re.MULTILINE))

    @property
    def resources(self) -> list[tuple[str, str, str]]:
        """The name here, type and version of the interface of each resource."""
        return re.findall(r"^resource (\w+) '([^'@]+)@([^']+)'", self.text, re.MULTILINE)

    @property
    def modules(self) -> dict[str, tuple[Path, set[str]]]:
        """The file of each module, and the parameters that it is given."""
        found = {}
        for name, file, body in re.findall(
            r"^module (\w+) '([^']+)'.*?\{\n(.*?)^\}", self.text, re.MULTILINE | re.DOTALL
        ):
            (params,) = re.findall(r"^  params: \{\n(.*?)^  \}", body, re.MULTILINE | re.DOTALL)
            found[name] = (self.path.parent / file, set(re.findall(r"^    (\w+):", params, re.MULTILINE)))
        return found

    def unbalanced(self) -> str | None:
        """What is wrong with the brackets, if anything is."""
        code = _TOKEN.sub("''", self.text)
        opened: list[str] = []
        for line, text in enumerate(code.splitlines(), 1):
            for sign in text:
                if sign in PAIRS:
                    opened.append(PAIRS[sign])
                elif sign in PAIRS.values() and (not opened or opened.pop() != sign):
                    return f"line {line}: {sign}"
        return f"never closed: {opened}" if opened else None
