#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fill in the column `missing` of results/rows.csv from the presets, and check the table.

    tools/rows.py PROGRAM            write results/rows.csv and its page
    tools/rows.py --check PROGRAM    write nothing; exit 1 if the table would change or is wrong

The status of a row, its name, features and tests are written by hand. `missing` of a row that has presets is
what they say themselves; of the others it is written by hand.
"""
import glob
import json
import os
import re
import subprocess
import sys

import results

ROWS = [*range(1, 169), 179, 180, *range(184, 190)]
FIELDS = ["row", "name", "status", "preset or feature", "missing", "test"]
STATES = ("whole", "partly", "not there", "left out")


def presets(program):
    """{row: [presets]} of the program."""
    done = subprocess.run([program, "systems", "--json"], capture_output=True, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        preset = json.loads(line)
        found.setdefault(preset["row"] or 0, []).append(preset)
    return found


def is_test(root, word):
    """True for FILE or FILE:CASE, of a test program in the sources that has that case."""
    stem, _, case = word.partition(":")
    files = [path for top in ("src", "tests") for path in glob.glob(f"{root}/{top}/**/{stem}.c", recursive=True)]
    if len(files) != 1:
        return False
    with open(files[0], encoding="utf-8") as file:
        return not case or re.search(rf"cmocka_unit_test\({case}\)", file.read()) is not None


def fill(rows, systems):
    """The rows with what their presets miss. A row that is left out has its reason there."""
    filled = []
    for number, name, status, features, missing, tests in rows:
        own = systems.get(int(number), [])
        if own and status != "left out":
            missing = "; ".join(dict.fromkeys(preset["missing"] for preset in own if preset["missing"]))
        filled.append([number, name, status, features, missing, tests])
    return filled


def mistakes(root, rows, systems):
    """Every contradiction in the table, as sentences."""
    found = []
    if [row[0] for row in rows] != [str(number) for number in ROWS]:
        found.append("the rows are not 1 to 168, 179, 180 and 184 to 189, each once and in order")
    for number, name, status, features, missing, tests in rows:
        where = f"row {number} ({name})"
        if status not in STATES:
            found.append(f"{where}: status {status}; it is one of {', '.join(STATES)}")
        elif (status == "whole") != (missing == ""):
            found.append(f"{where}: it is {status}, and \"{missing}\" is missing")
        for preset in systems.get(int(number), []):
            if preset["name"] not in features.split():
                found.append(f"{where}: preset {preset['name']} is not named")
        if status in ("whole", "partly") and not (features and tests):
            found.append(f"{where}: it is {status} without a feature or a test")
        found += [f"{where}: no test {word}" for word in tests.split() if not is_test(root, word)]
    return found


def main():
    words = [word for word in sys.argv[1:] if word != "--check"]
    if len(words) != 1:
        sys.exit(__doc__)
    table = results.read_table(os.path.join(results.HERE, "results", "rows.csv"))
    if table.fields != FIELDS:
        sys.exit(f"results/rows.csv: the columns are {', '.join(FIELDS)}")
    systems = presets(words[0])
    rows = fill(table.rows, systems)
    if "--check" not in sys.argv:
        results.publish([("rows", table.head, FIELDS, rows)])
    found = mistakes(results.HERE, rows, systems)
    if "--check" in sys.argv and rows != table.rows:
        old = [row[0] for row, new in zip(table.rows, rows) if row != new]
        found.append(f"`missing` of rows {', '.join(old)} is not what presets say: tools/rows.py PROGRAM")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
