# SPDX-License-Identifier: Apache-2.0
"""Runs for people and for other programs: plots, and folders in the layout of Weights & Biases."""
from __future__ import annotations

import html
import json
import math
import os
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _native as native
from ._library import lib
from .run import Run
from .tables import _read, metrics

POINTS_MAX = 500  #: of a picture that is drawn again and again: more are thinned
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2")


def _rows(table: Any) -> List[Dict[str, Any]]:
    return table.to_dict("records") if hasattr(table, "to_dict") else list(table)


def _number(run: Any) -> int:
    number = run.id if isinstance(run, Run) else int(run)
    if not number:
        raise ValueError("the run is not in the store: train it without store=\"none\"")
    return number


def _ticks(low: float, high: float) -> List[float]:
    """About five round numbers between two."""
    step = 10 ** math.floor(math.log10((high - low) / 4))
    step *= 5 if (high - low) / step > 20 else 2 if (high - low) / step > 8 else 1
    first = math.ceil(low / step)
    return [step * i for i in range(first, int(math.floor(high / step)) + 1)]


class Plot:
    """Lines over an axis, as a picture in a notebook and as an SVG file by save(): without another package."""

    def __init__(self, lines: Dict[str, Sequence[Tuple[float, float]]], x: str, y: str):
        self.lines = {name: [p for p in points if all(v is not None and math.isfinite(v) for v in p)]
                      for name, points in lines.items()}
        self.x, self.y = x, y

    def _repr_svg_(self) -> str:
        every = [p for points in self.lines.values() for p in points] or [(0.0, 0.0)]
        (x0, x1), (y0, y1) = ((min(v), max(v)) for v in zip(*every))
        x1, y1 = (x1 if x1 > x0 else x0 + 1), (y1 if y1 > y0 else y0 + 1)

        def at(x: float, y: float) -> Tuple[float, float]:
            return 60 + 420 * (x - x0) / (x1 - x0), 230 - 210 * (y - y0) / (y1 - y0)
        out = ['<svg xmlns="http://www.w3.org/2000/svg" width="640" height="280" font-family="sans-serif" font-size="11">',
               f'<text x="270" y="272" text-anchor="middle">{html.escape(self.x)}</text>',
               f'<text x="14" y="125" text-anchor="middle" transform="rotate(-90 14 125)">{html.escape(self.y)}</text>',
               '<rect x="60" y="20" width="420" height="210" fill="none" stroke="#888"/>']
        for v in _ticks(x0, x1):
            out.append(f'<text x="{at(v, y0)[0]:.1f}" y="246" text-anchor="middle">{v:g}</text>')
        for v in _ticks(y0, y1):
            out.append(f'<text x="55" y="{at(x0, v)[1] + 4:.1f}" text-anchor="end">{v:g}</text>')
        for i, (name, points) in enumerate(self.lines.items()):
            colour = COLOURS[i % len(COLOURS)]
            path = " ".join("{:.1f},{:.1f}".format(*at(*p)) for p in points)
            out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            out.append(f'<text x="490" y="{30 + 14 * i}" fill="{colour}">{html.escape(name)}</text>')
        return "\n".join(out + ["</svg>"])

    def save(self, path: Any) -> None:
        """Write the picture as a file of SVG."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._repr_svg_())


def plot(*which: Any, y: str = "loss", x: str = "step", store: Any = None) -> Plot:
    """A measure of stored runs over time: numbers of runs or Run objects; x may be step, epoch, time_s, samples, bytes."""
    lines: Dict[str, Sequence[Tuple[float, float]]] = {}
    for run in which:
        number = _number(run)
        rows = _rows(metrics(number, store=store))
        if rows and (x not in rows[0] or y not in rows[0]):
            raise ValueError(f"no measure \"{x if x not in rows[0] else y}\"; there are {', '.join(rows[0])}")
        lines[f"run {number}"] = [(row[x], row[y]) for row in rows]
    return Plot(lines, x, y)


def _clean(value: Any) -> Any:
    """A value for JSON: none for a number that is not finite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def export_wandb(run: Any, folder: Any, store: Any = None) -> str:
    """Write a stored run as the folder of an offline run of Weights & Biases, and return the folder's path.

        offline-run-<date>-fast<number>/files/config.yaml           options, each with its value
                                              wandb-summary.json    the last measures
                                              wandb-metadata.json   program, arguments, times
                                              wandb-history.jsonl   measures over time: _step, _runtime, ...

    These are the files that people and scripts read there. The transaction log that `wandb sync` uploads is a
    binary file of wandb's own and is not written.
    """
    number = _number(run)
    found = _rows(_read(store, native.FAST_STORE_RUNS, lambda s, each: lib.fast_store_find(s, number, each, None)))
    row = {name: _clean(value) for name, value in found[0].items()}
    history = _rows(metrics(number, store=store))
    began = float(row["created"] or 0)
    name = time.strftime("%Y%m%d_%H%M%S", time.gmtime(began))
    path = os.path.join(os.fspath(folder), f"offline-run-{name}-fast{number}", "files")
    os.makedirs(path, exist_ok=True)

    def write(name: str, text: str) -> None:
        with open(os.path.join(path, name), "w", encoding="utf-8") as file:
            file.write(text)
    config = json.loads(row["options"]) if row.get("options") else {}
    write("config.yaml", "wandb_version: 1\n" + "".join(  # JSON texts and numbers are YAML too
        f"{name}:\n  desc: null\n  value: {json.dumps(value)}\n" for name, value in config.items()))
    lines: List[Dict[str, Any]] = []
    for measured in history:
        line = {name: _clean(value) for name, value in measured.items() if _clean(value) is not None}
        lines.append(dict(line, _step=line.get("step"), _runtime=line.get("wall_s", 0.0),
                          _timestamp=began + line.get("wall_s", 0.0)))
    write("wandb-history.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    write("wandb-summary.json", json.dumps(lines[-1] if lines else {}, indent=1))
    write("wandb-metadata.json", json.dumps({"program": "fast", "args": row.get("command"), "startedAt": time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)), "host": row.get("host"), "state": row.get("status")}, indent=1))
    return os.path.dirname(path)


def live() -> Optional[Any]:
    """A watcher for notebooks: the line of progress and the losses so far as a picture, in place; None elsewhere."""
    try:
        from IPython import get_ipython
        from IPython.display import SVG, display
    except ImportError:
        return None
    if get_ipython() is None:
        return None
    points: List[Tuple[float, float]] = []
    shown: List[Any] = []

    def watch(event: Any) -> None:
        if event.kind not in ("progress", "evaluate"):
            return
        points.append((event.step, event.loss))
        if len(points) > POINTS_MAX:
            del points[1::2]
        picture = SVG(Plot({f"step {event.step} of {event.step_count}": points}, "step", "loss")._repr_svg_())
        if shown:
            shown[0].update(picture)
        else:
            shown.append(display(picture, display_id=True))
    return watch
