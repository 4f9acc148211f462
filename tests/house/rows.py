"""results/rows.csv lists every row once, agrees with the presets, and names tests that exist; a wrong table is noticed."""
import os
import subprocess
import sys

root, program = sys.argv[1], sys.argv[2]
done = subprocess.run([sys.executable, os.path.join(root, "tools", "rows.py"), "--check", program],
                      capture_output=True, text=True)
if done.returncode:
    sys.exit(done.stdout + done.stderr)

sys.path.insert(0, os.path.join(root, "tools"))
import results  # noqa: E402
import rows  # noqa: E402

table = results.read_table(os.path.join(root, "results", "rows.csv"))
systems = rows.presets(program)
COLUMN = {name: i for i, name in enumerate(rows.FIELDS)}


def complains(expected, number, field, text):
    """Change one cell, and expect one complaint."""
    changed = [list(row) for row in table.rows]
    next(row for row in changed if row[0] == number)[COLUMN[field]] = text
    found = rows.mistakes(root, rows.fill(changed, systems), systems)
    if len(found) != 1 or expected not in found[0]:
        sys.exit(f"row {number} with {field} \"{text}\" gives {found}")


complains("each once", "136", "row", "137")
complains("it is one of", "120", "status", "wholly")
complains("is missing", "13", "status", "whole")
complains("is missing", "120", "status", "partly")
complains("preset horovod is not named", "122", "preset or feature", "baidu-ring")
complains("without a feature or a test", "1", "test", "")
complains("no test ring_test", "122", "test", "closed_forms_test:test_ring ring_test")
complains("no test closed_forms_test:test_rung", "122", "test", "closed_forms_test:test_rung")
