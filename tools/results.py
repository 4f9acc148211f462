#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the pages of results/ from its CSV files.

    tools/results.py            write results/*.md
    tools/results.py --check    write nothing; exit 1 if a page or a table is not in its generated form

A table is one CSV file. It starts with lines "# key: text":

    page      the page that shows the table: results/<page>.md
    order     the place of the table on that page
    title     the heading
    question  what the table answers
    machine   the processor, or "any" for runs in virtual time
    date      when it was measured, with the commit of the program
    command   a command that measures it again; may be repeated
    note      what a reader must know: how settings were chosen, what limits the figures; may be repeated
    code      columns whose words are code, separated by commas

A page of docs/ that shows some columns of a table has them between two lines, which stay,

    <!-- results/cpu.csv: rows "instruction set", columns "model", cells "ratio" -->
    <!-- results/cpu.csv: end -->

as a row for each value of the first column (or of several, separated by commas), a column for each of
the second.

The rows follow, the first of them the names of the columns. results/pages.csv has the title and the
introduction of each page. Programs that measure write tables with write_table().
"""
import csv
import datetime
import io
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REQUIRED = ["page", "order", "title", "question", "machine", "date", "command"]
KEYS = REQUIRED + ["note", "code"]
REPEATED = ("command", "note")
PAGES = "pages.csv"
VIRTUAL = "any: the time is virtual, and a run repeats to the bit on the same kind of processor"
NUMBER = re.compile(r"[-+]?[0-9][0-9,.]*(e[-+]?[0-9]+)?( ?%| k| ms| s| MB)?$|-?$")


class Table:
    """One CSV file: its head, the names of its columns and its rows."""

    def __init__(self, name, head, fields, rows):
        self.name, self.fields = name, list(fields)
        self.head = {key: list(value) if key in REPEATED else value for key, value in head.items()}
        self.rows = [[str(cell) for cell in row] for row in rows]

    def text(self):
        """The canonical form of the file."""
        out = io.StringIO()
        for key in KEYS:
            values = self.head.get(key, [])
            for value in values if key in REPEATED else [values] if values else []:
                out.write(f"# {key}: {value}\n")
        csv.writer(out, lineterminator="\n").writerows([self.fields, *self.rows])
        return out.getvalue()


def read_table(path):
    """A table, or ValueError with the mistake."""
    head = {}
    with open(path, encoding="utf-8", newline="") as file:
        lines = file.read().split("\n")
    while lines and lines[0].startswith("# "):
        key, colon, value = lines.pop(0)[2:].partition(": ")
        if key not in KEYS or not colon:
            raise ValueError(f"unknown line \"# {key}\"; the keys are {', '.join(KEYS)}")
        if key in REPEATED:
            head.setdefault(key, []).append(value)
        elif key in head:
            raise ValueError(f"\"{key}\" is given twice")
        else:
            head[key] = value
    rows = list(csv.reader(io.StringIO("\n".join(lines))))
    missing = [key for key in REQUIRED if not head.get(key)]
    if missing:
        raise ValueError(f"no line \"# {missing[0]}: ...\"")
    if len(rows) < 2 or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("no rows, or rows of different lengths")
    return Table(os.path.basename(path)[:-4], head, rows[0], rows[1:])


def write_table(name, head, fields, rows, root=HERE):
    """Write results/<name>.csv. What `head` lacks, the notes included, is taken from the file that is there."""
    path = os.path.join(root, "results", name + ".csv")
    if os.path.exists(path):
        head = {**read_table(path).head, **head}
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(Table(name, head, fields, rows).text())
    return path


def today():
    """The date and the commit of this moment, for the head of a table."""
    git = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return datetime.date.today().isoformat() + (f", commit {git.stdout.strip()}" if git.returncode == 0 else "")


def machine():
    """The processor and the number of cores of this machine."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            name = re.search(r"^model name\s*: (.*)$", file.read(), re.M)
    except OSError:
        name = None
    return f"{len(os.sched_getaffinity(0))} cores of {name[1] if name else os.uname().machine}"


def publish(tables, root=HERE):
    """Write tables, each (name, head, fields, rows), and make the pages again."""
    for table in tables:
        write_table(*table, root=root)
    write_pages(root)


def cell_text(cell, is_code):
    if is_code:
        cell = ", ".join(f"`{word}`" for word in cell.split())
    return cell.replace("|", "\\|")


def page_of_table(table):
    """The lines of one table."""
    head = table.head
    code = set(head.get("code", "").split(","))
    right = [all(NUMBER.match(row[i]) for row in table.rows) for i in range(len(table.fields))]
    lines = [f"## {head['title']}", "", head["question"], ""]
    lines += ["| " + " | ".join(table.fields) + " |", "|" + "".join("---:|" if r else "---|" for r in right)]
    for row in table.rows:
        cells = [cell_text(cell, field in code) for field, cell in zip(table.fields, row)]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [""] + [note + "\n" for note in head.get("note", [])]
    lines += [f"Machine: {head['machine']}.", f"Measured: {head['date']}.",
              f"Data: [{table.name}.csv]({table.name}.csv).", "", "```", *head["command"], "```", ""]
    return "\n".join(lines).split("\n")


def read_pages(folder):
    """{page: {"title": [text], "summary": [text], "text": [texts]}} in order."""
    pages = {}
    with open(os.path.join(folder, PAGES), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            pages.setdefault(row["page"], {}).setdefault(row["kind"], []).append(row["text"])
    return pages


SHOWN = re.compile(r'(<!-- results/([\w-]+)\.csv: rows "([^"]+)", columns "([^"]+)", cells "([^"]+)" -->\n)'
                   r'.*?(<!-- results/\2\.csv: end -->)', re.S)


def pivot(table, row_fields, column_field, cell_field):
    """The lines of a table with one row for each value of row_fields, one column for each of column_field."""
    at = {field: i for i, field in enumerate(table.fields)}
    unknown = [field for field in [*row_fields, column_field, cell_field] if field not in at]
    if unknown:
        sys.exit(f"results/{table.name}.csv has no column \"{unknown[0]}\"")
    columns = list(dict.fromkeys(row[at[column_field]] for row in table.rows))
    cells = {}
    for row in table.rows:
        cells.setdefault(tuple(row[at[f]] for f in row_fields), {})[row[at[column_field]]] = row[at[cell_field]]
    code = set(table.head.get("code", "").split(","))
    lines = ["| " + " | ".join([*row_fields, *columns]) + " |", "|" + "---|" * len(row_fields) + "---:|" * len(columns)]
    for names, found in cells.items():
        shown = [cell_text(name, field in code) for field, name in zip(row_fields, names)]
        lines.append("| " + " | ".join([*shown, *(found.get(column, "") for column in columns)]) + " |")
    return "\n".join(lines) + "\n"


def make_docs(root, tables):
    """{name of a page of docs/, as seen from results/: its text}, of those that show tables."""
    folder, files = os.path.join(root, "docs"), {}

    def shown(match):
        begin, name, rows, columns, cells, end = match.groups()
        if name not in tables:
            sys.exit(f"docs show results/{name}.csv, which is not there")
        return begin + "\n" + pivot(tables[name], rows.split(","), columns, cells) + "\n" + end

    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".md"):
            with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
                text = file.read()
            if SHOWN.search(text):
                files["../docs/" + name] = SHOWN.sub(shown, text)
    return files


def make(root):
    """{name of a file, as seen from results/: its text}, of tables and pages."""
    folder = os.path.join(root, "results")
    files, tables, pages = {}, {}, read_pages(folder)
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".csv") or name == PAGES:
            continue
        try:
            table = read_table(os.path.join(folder, name))
        except ValueError as error:
            sys.exit(f"results/{name}: {error}")
        if table.head["page"] not in pages:
            sys.exit(f"results/{name}: results/{PAGES} has no page \"{table.head['page']}\"")
        files[name] = table.text()
        tables.setdefault(table.head["page"], []).append(table)
    index = ["# Results", "", "Everything that was measured, with the machine, the date and the command.",
             "`tools/results.py` makes these pages from the CSV files beside them; a test compares both.", "",
             "| page | question | tables |", "|---|---|---:|"]
    for page, head in pages.items():
        if page not in tables:
            sys.exit(f"results/{PAGES}: page \"{page}\" has no table")
        lines = [f"# {head['title'][0]}", "", "Made by `tools/results.py`; do not edit.", "",
                 *head.get("text", []), *[""] * ("text" in head)]
        for table in sorted(tables[page], key=lambda t: (int(t.head["order"]), t.name)):
            lines += page_of_table(table)
        files[page + ".md"] = "\n".join(lines).rstrip("\n") + "\n"
        index.append(f"| [{page}.md]({page}.md) | {head['summary'][0]} | {len(tables[page])} |")
    files["README.md"] = "\n".join(index) + "\n"
    files.update(make_docs(root, {table.name: table for group in tables.values() for table in group}))
    return files


def stale(root):
    """Names of files in results/ that are not as make() has them, and of pages that nothing makes."""
    folder = os.path.join(root, "results")
    files, bad = make(root), []
    for name, text in files.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path) or open(path, encoding="utf-8", newline="").read() != text:
            bad.append(name)
    return bad + [name for name in sorted(os.listdir(folder)) if name != PAGES and name not in files]


def write_pages(root=HERE):
    for name, text in make(root).items():
        with open(os.path.join(root, "results", name), "w", encoding="utf-8", newline="") as file:
            file.write(text)


def main():
    words = sys.argv[1:]
    check = "--check" in words
    roots = [word for word in words if word != "--check"] or [HERE]
    if not check:
        write_pages(roots[0])
        return 0
    bad = stale(roots[0])
    for name in bad:
        print(f"{os.path.normpath('results/' + name)} is not what tools/results.py makes of the tables; run it")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
