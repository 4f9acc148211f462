# SPDX-License-Identifier: Apache-2.0
"""Tables: comparisons, the run store, named systems and parts. pandas where it is installed, else lists."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, List, Optional

from . import _native as native
from ._library import Guard, check, interruptible, lib, options, program, text_list


class Table(list):
    """Rows as dictionaries, printed in columns: for machines without pandas."""

    def __repr__(self) -> str:
        if not self:
            return "(no rows)"
        names = list(self[0])
        lines = [names] + [[f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()] for row in self]
        widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
        return "\n".join("  ".join(v.ljust(w) for v, w in zip(line, widths)).rstrip() for line in lines)


def table(rows: List[Dict[str, Any]]) -> Any:
    """Return rows as a pandas.DataFrame, or as a Table without pandas."""
    try:
        import pandas
    except ImportError:
        return Table(rows)
    return pandas.DataFrame(rows)


def fields(struct: Any) -> Dict[str, Any]:
    """A struct's numbers and texts as a dictionary."""
    out: Dict[str, Any] = {}
    for name, kind in struct._fields_:
        value = getattr(struct, name)
        if isinstance(value, bytes):
            out[name] = value.decode(errors="replace")
        elif isinstance(value, (int, float, bool)) or kind is ctypes.c_char_p:
            out[name] = value
    return out


def systems() -> Any:
    """The named systems of the literature: name, title, authors, options, and what a preset lacks."""
    count = ctypes.c_int64()
    rows = lib.fast_system_list(ctypes.byref(count))
    return table([fields(rows[i]) for i in range(count.value)])


def parts(kind: str) -> Any:
    """The parts of a kind ("model", "strategy", "data", "transport", ...): name and summary."""
    count = ctypes.c_int64()
    rows = lib.fast_part_list(kind.encode(), ctypes.byref(count))
    if not rows:
        raise ValueError(f"no kind of parts \"{kind}\"; there are model, data, strategy, codec, topology, transport, ...")
    return table([dict(name=rows[i].name.decode(), summary=(rows[i].summary or b"").decode())
                  for i in range(count.value)])


class Comparison:
    """The end of a comparison: `table` (the best first), `verdict`, `runs` (one row a run), `report` (HTML)."""

    def __init__(self, lines: List[Dict[str, Any]], runs: List[Dict[str, Any]], verdict: str):
        self.table, self.runs, self.verdict = table(lines), table(runs), verdict

    def __repr__(self) -> str:
        return f"{self.table!r}\n{self.verdict}"

    def _repr_html_(self) -> str:
        shown = self.table._repr_html_() if hasattr(self.table, "_repr_html_") else f"<pre>{self.table!r}</pre>"
        return f"{shown}<p>{self.verdict}</p>"


def _line(line: Any) -> Dict[str, Any]:
    """A line of a comparison as one row: medians, and least and largest accuracy and time."""
    row = {"name": line.name.decode(), "place": line.place, "tuned": (line.tuned or b"").decode(),
           "reached": line.reached_count, "failed": line.failed_count}
    for name, kind in line._fields_:
        if kind is native.fast_compare_spread:
            row[name] = getattr(line, name).median
    for name in ("accuracy", "time_to_target_s"):
        row[name + "_min"], row[name + "_max"] = getattr(line, name).min, getattr(line, name).max
    row["error"] = line.error.decode(errors="replace") if line.error else None
    return row


def compare(*, tune: Any = None, seeds: int = 0, jobs: int = 0, report: Optional[str] = None, watch: Any = None,
            **more: Any) -> Comparison:
    """Compare ways of training: `fast compare`, whose options are the keyword arguments; lists are axes.

    >>> fast.compare(system=["bsp", "ssp", "easgd"], cluster="hetero", transport="sim", workers=4, seeds=1)

    `tune` is a dictionary of lists, {"lr": [0.05, 0.1]}, or False. `report` is a path of an HTML report; `watch`
    is called with (runs done, runs in all). Every run is a process of its own; Ctrl-C ends them.
    """
    tuned = ["no"] if tune is False else options(tune) if tune else None
    words, tune_words, name = text_list(options(more)), text_list(tuned) if tuned else None, program().encode()
    config = native.fast_compare_config(size=ctypes.sizeof(native.fast_compare_config), program=name, seeds=seeds,
                                        options=ctypes.cast(words, ctypes.POINTER(ctypes.c_char_p)), jobs=jobs)
    if tune_words is not None:
        config.tune = ctypes.cast(tune_words, ctypes.POINTER(ctypes.c_char_p))
    handle, guard = ctypes.POINTER(native.fast_compare)(), Guard()
    check(lib.fast_compare_open(ctypes.byref(config), ctypes.byref(handle)))

    def step(_: Any, progress: Any) -> None:
        try:
            watch(progress.contents.runs_done, progress.contents.runs_count)
        except BaseException as error:
            guard.remember(error)
            lib.fast_compare_cancel(handle)

    try:
        watcher = native.fast_compare_fn(step) if watch else native.fast_compare_fn()
        lib.fast_compare_watch(handle, watcher, None)
        interruptible(lambda: lib.fast_compare_run(handle), lambda: lib.fast_compare_cancel(handle), guard)
        count = ctypes.c_int64()
        lines = lib.fast_compare_lines(handle, ctypes.byref(count))
        rows = [_line(lines[i]) for i in range(count.value)]
        runs = [dict(name=lines[i].name.decode(), **fields(lines[i].runs[j]), **fields(lines[i].runs[j].measures))
                for i in range(count.value) for j in range(lines[i].run_count)]
        if report:
            check(lib.fast_compare_report(handle, str(report).encode(), None))
        return Comparison(rows, runs, (lib.fast_compare_verdict(handle) or b"").decode(errors="replace"))
    finally:
        lib.fast_compare_close(handle)


def _row(kind: int, address: int) -> Dict[str, Any]:
    """A row of the store as a dictionary, by the store's own table of columns."""
    count = ctypes.c_int64()
    columns = lib.fast_store_columns(kind, ctypes.byref(count))
    row: Dict[str, Any] = {}
    for i in range(count.value):
        at = address + columns[i].offset
        if columns[i].kind == native.FAST_COLUMN_INT:
            value: Any = ctypes.c_int64.from_address(at).value
            value = None if value == -1 else value
        elif columns[i].kind == native.FAST_COLUMN_REAL:
            value = ctypes.c_double.from_address(at).value
        else:
            text = ctypes.c_char_p.from_address(at).value
            value = text.decode(errors="replace") if text is not None else None
        row[columns[i].name.decode()] = value
    return row


def _read(path: Any, kind: int, call: Any) -> Any:
    """Open a store, collect the rows that `call(store, each)` gives, close it."""
    store, rows, guard = ctypes.POINTER(native.fast_store)(), [], Guard()

    def each(_: Any, address: int) -> int:
        try:
            rows.append(_row(kind, address))
            return native.FAST_OK
        except BaseException as error:
            guard.remember(error)
            return native.FAST_EINVAL

    check(lib.fast_store_open(str(path).encode() if path else None, False, ctypes.byref(store)))
    try:
        code = call(store, native.fast_store_row_fn(each))
        guard.raise_first()
        check(code)
    finally:
        lib.fast_store_close(store)
    return table(rows)


def runs(search: Optional[str] = None, where: Optional[str] = None, status: Optional[str] = None,
         tag: Optional[str] = None, sort: Optional[str] = None, limit: int = 0, store: Any = None) -> Any:
    """The runs of the store, newest first: `fast runs`. `where` is a condition: "workers>=4,model~net"."""
    texts = {k: v.encode() for k, v in dict(search=search, where=where, status=status, tag=tag, sort=sort).items() if v}
    query = native.fast_store_query(size=ctypes.sizeof(native.fast_store_query), limit=limit, **texts)
    return _read(store, native.FAST_STORE_RUNS,
                 lambda s, each: lib.fast_store_list(s, ctypes.byref(query), each, None, None))


def metrics(run: int, store: Any = None, name: str = "metrics") -> Any:
    """The measures of a stored run over time; or another of its tables: events, workers, links, staleness, spans."""
    kinds = ["runs", "metrics", "events", "workers", "links", "staleness", "spans", "tags"]
    if name not in kinds[1:]:
        raise ValueError(f"no table \"{name}\"; there are {', '.join(kinds[1:])}")
    kind = kinds.index(name)
    return _read(store, kind, lambda s, each: lib.fast_store_read(s, kind, run, -1, each, None))
