#!/usr/bin/env python3
"""coverage - which lines of src the tests run, from the counts that a build with gcov left behind.

    tools/coverage.py FOLDER [--missed] [--files] [--least PERCENT] [--publish]

FOLDER is a build of the preset `coverage` whose tests have run. A line counts as run if any object file
that has it ran it: files of vector kernels are compiled once for each instruction set. Tests and src/cli
are left out. --missed lists the lines that never ran, by file; --files the files with the most such lines;
--least fails below that percentage; --publish writes results/coverage.csv and its page.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import subprocess
import sys

import results

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read_counts(group):
    """(file, line, count) of the object files whose notes are `group`; one without counts never ran."""
    result = subprocess.run(["gcov", "--json-format", "--stdout", *group], capture_output=True, text=True,
                            check=True, cwd=os.path.dirname(group[0]))
    rows = []
    for text in result.stdout.splitlines():
        report = json.loads(text)
        for file in report["files"]:
            path = os.path.relpath(os.path.join(report["current_working_directory"], file["file"]), SOURCE)
            rows += [(path, line["line_number"], line["count"]) for line in file["lines"]]
    return rows


def is_counted(path):
    return path.startswith("src/") and not path.startswith("src/cli/") and not path.endswith("_test.c")


def read_tree(folder):
    """{file: {line: count}} of everything under a build's own objects."""
    notes = glob.glob(os.path.join(folder, "CMakeFiles", "fast_*.dir", "src", "**", "*.gcno"), recursive=True)
    groups = [notes[i:i + 16] for i in range(0, len(notes), 16)]
    lines = collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for rows in pool.map(read_counts, groups):
            for path, line, count in rows:
                if is_counted(path):
                    lines[path][line] += count
    return lines


def ranges(numbers):
    """Consecutive numbers as text: 3-5 8."""
    out = []
    for number in sorted(numbers):
        if out and out[-1][1] == number - 1:
            out[-1][1] = number
        else:
            out.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def share(run, total):
    return f"{100 * run / total:.1f}%"


def publish(total, run):
    """Write the table of results/ by folder."""
    head = {"page": "coverage", "order": "1", "title": "Lines that the tests run", "machine": results.machine(),
            "question": "Which part of `src`, without the program `fast`, do the tests run? Lines as gcov counts them.",
            "date": results.today(), "command": ["make coverage", "tools/coverage.py build/coverage --publish"],
            "code": "folder"}
    names = sorted(total.keys() - {"all"})
    rows = [[name, total[name], run[name], share(run[name], total[name])] for name in [*names, "all"]]
    results.publish([("coverage", head, ["folder", "lines", "run", "share"], rows)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--missed", action="store_true", help="list the lines that never ran")
    parser.add_argument("--files", action="store_true", help="list the files with the most lines that never ran")
    parser.add_argument("--publish", action="store_true", help="write results/coverage.csv")
    parser.add_argument("--least", type=float, default=0, metavar="PERCENT", help="fail below this percentage")
    options = parser.parse_args()
    lines = read_tree(os.path.abspath(options.folder))
    if not lines:
        sys.exit(f"no counts under {options.folder}: build the preset coverage and run its tests first")
    total, run, files = collections.Counter(), collections.Counter(), []
    for path, counts in sorted(lines.items()):
        missed = [line for line, count in counts.items() if count == 0]
        for name in (path.split("/")[1], "all"):
            total[name] += len(counts)
            run[name] += len(counts) - len(missed)
        files.append((len(missed), len(counts), path))
        if options.missed and missed:
            print(f"{path}: {ranges(missed)}")
    for missed, lines_of_file, path in sorted(files, reverse=True)[:20] if options.files else []:
        print(f"{missed:5} of {lines_of_file:5}  {path}")
    print(f"{'folder':12}{'lines':>8}{'run':>8}{'':>9}")
    for name in [*sorted(total.keys() - {"all"}), "all"]:
        print(f"{name:12}{total[name]:8}{run[name]:8}{share(run[name], total[name]):>9}")
    if options.publish:
        publish(total, run)
    if 100 * run["all"] / total["all"] < options.least:
        sys.exit(f"below {options.least}%")


if __name__ == "__main__":
    main()
