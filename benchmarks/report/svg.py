"""Charts as plain SVG: they follow the reader's light or dark scheme, and each value stands beside its bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.report.lines import Figure

_STYLE = """
  .back { fill: #ffffff } text { fill: #24292f; font: 12px system-ui, sans-serif } .title { font-size: 15px;
  font-weight: 600 } .note { fill: #57606a; font-size: 11px } .axis { stroke: #d0d7de } .range { stroke: #24292f }
  .c0 { fill: #0969da } .c1 { fill: #54aeff } .c2 { fill: #1a7f37 } .c3 { fill: #8250df } .c4 { fill: #bf8700 }
  .c5 { fill: #6e7781 } .c6 { fill: #afb8c1 } .c7 { fill: #cf222e } .c8 { fill: #bc4c00 }
  .l0 { stroke: #0969da } .l1 { stroke: #1a7f37 } .l2 { stroke: #8250df } .line { fill: none; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 } text { fill: #e6edf3 } .note { fill: #8d96a0 } .axis { stroke: #30363d }
    .range { stroke: #e6edf3 } .c0 { fill: #4493f8 } .c1 { fill: #1f6feb } .c2 { fill: #3fb950 }
    .c3 { fill: #ab7df8 } .c4 { fill: #d29922 } .c5 { fill: #8d96a0 } .c6 { fill: #656c76 } .c7 { fill: #f85149 }
    .c8 { fill: #db6d28 } .l0 { stroke: #4493f8 } .l1 { stroke: #3fb950 } .l2 { stroke: #ab7df8 }
  }
"""
WIDTH = 760
_LEFT, _RIGHT, _BAR, _GAP = 270, 140, 16, 14


@dataclass(frozen=True)
class Bar:
    """One bar: its label, its figure, the text beside it, and the number of its colour."""

    label: str
    figure: Figure
    text: str
    colour: int


def bars(title: str, note: str, groups: Mapping[str, Sequence[Bar]]) -> str:
    """Groups of horizontal bars, each group with a scale of its own; the thin line of a bar is the range of its
    rounds."""
    parts: list[str] = []
    y = 62
    for name, found in groups.items():
        if not found:
            continue
        most = max(bar.figure.most for bar in found) or 1.0
        scale = (WIDTH - _LEFT - _RIGHT) / most
        if name:
            parts.append(_text(16, y + 4, name, "title"))
            y += 12
        for bar in found:
            length = bar.figure.median * scale
            middle = y + _BAR / 2
            parts.append(_text(_LEFT - 8, middle + 4, bar.label, anchor="end"))
            place = f'x="{_LEFT}" y="{y}" width="{max(1.0, length):.1f}" height="{_BAR}"'
            parts.append(f'<rect class="c{bar.colour}" {place} rx="2"/>')
            ends = [_LEFT + value * scale for value in (bar.figure.least, bar.figure.most)]
            if ends[1] - ends[0] > 1:
                parts.append(f'<path class="range" d="M{ends[0]:.1f} {middle}H{ends[1]:.1f}"/>')
            parts.append(_text(max(_LEFT + length, ends[1]) + 6, middle + 4, bar.text))
            y += _BAR + 5
        y += _GAP
    return _page(title, note, y, parts)


def stacked(title: str, note: str, groups: Mapping[str, Mapping[str, float]], unit: str) -> str:
    """One bar per group, made of parts; its whole is its own scale. The parts are named below."""
    names = list(dict.fromkeys(name for parts in groups.values() for name in parts))
    drawn: list[str] = []
    y = 56
    for label, values in groups.items():
        whole = sum(values.values()) or 1.0
        drawn.append(_text(_LEFT - 8, y + 15, label, anchor="end"))
        x = float(_LEFT)
        for number, name in enumerate(names):
            length = values.get(name, 0.0) / whole * (WIDTH - _LEFT - _RIGHT)
            drawn.append(f'<rect class="c{number % 9}" x="{x:.1f}" y="{y}" width="{length:.1f}" height="22"/>')
            x += length
        drawn.append(_text(x + 6, y + 15, f"{whole:.3g} {unit}"))
        y += 32
    y += 8
    for number, name in enumerate(names):
        x, row = 24 + 245 * (number % 3), y + 20 * (number // 3)
        drawn.append(f'<rect class="c{number % 9}" x="{x}" y="{row}" width="12" height="12" rx="2"/>')
        drawn.append(_text(x + 18, row + 10, name))
    return _page(title, note, y + 20 * -(-len(names) // 3), drawn)


def lines(title: str, note: str, at: Sequence[str], series: Mapping[str, Sequence[float]]) -> str:
    """Lines over named places, from 0 up; each point has its value."""
    height, top, left, right = 220, 66, 70, 200
    most = max((value for values in series.values() for value in values), default=1.0) or 1.0
    step = (WIDTH - left - right) / max(1, len(at) - 1)
    drawn = [f'<path class="axis" d="M{left} {top + height}H{WIDTH - right}"/>']
    for number, name in enumerate(at):
        drawn.append(_text(left + number * step, top + height + 18, name, anchor="middle"))
    for number, (name, values) in enumerate(series.items()):
        points = [(left + i * step, top + height - value / most * height) for i, value in enumerate(values)]
        path = " ".join(f"{'ML'[i > 0]}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))
        drawn.append(f'<path class="line l{number % 3}" d="{path}"/>')
        for (x, y), value in zip(points, values, strict=True):
            drawn.append(_text(x, y - 7, f"{value:.3g}", "note", anchor="middle"))
        drawn.append(_text(points[-1][0] + 22, points[-1][1] + 4, name))
    return _page(title, note, top + height + 34, drawn)


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "start") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text{shown} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _page(title: str, note: str, height: float, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}"'
        f' height="{height:.0f}" role="img" aria-label="{escape(title, quote=True)}">\n<style>{_STYLE}</style>\n'
        f'<rect class="back" width="{WIDTH}" height="{height:.0f}" rx="6"/>\n'
        f"{_text(16, 26, title, 'title')}\n{_text(16, 44, note, 'note')}\n{body}\n</svg>\n"
    )
