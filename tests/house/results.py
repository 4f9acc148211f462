"""The pages of results/ are what tools/results.py makes of its CSV files, and a change by hand of either is noticed."""
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

root = sys.argv[1]
tool = os.path.join(root, "tools", "results.py")
done = subprocess.run([sys.executable, tool, "--check", root], capture_output=True, text=True)
if done.returncode:
    sys.exit(done.stdout + done.stderr)

spec = importlib.util.spec_from_file_location("results", tool)
results = importlib.util.module_from_spec(spec)
spec.loader.exec_module(results)


def change(path, pattern, text):
    source = open(path, encoding="utf-8").read()
    new = re.sub(pattern, text, source, count=1, flags=re.M)
    assert new != source, f"{path}: {pattern} does not occur"
    open(path, "w", encoding="utf-8").write(new)


def complains(what, *names):
    """Change something in a copy of results/, and expect exactly these files to be stale."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("results", "docs"):
            shutil.copytree(os.path.join(root, part), os.path.join(folder, part))
        what(os.path.join(folder, "results"))
        stale = results.stale(folder)
        if sorted(stale) != sorted(names):
            sys.exit(f"{what.__doc__}: stale are {stale} instead of {list(names)}")


def number(folder):
    """a number of a table"""
    change(os.path.join(folder, "lean.csv"), "94 MB", "93 MB")


def note(folder):
    """a note of a table"""
    change(os.path.join(folder, "lean.csv"), "^# question: ", "# question: Really? ")


def page(folder):
    """a page"""
    change(os.path.join(folder, "performance.md"), "94 MB", "93 MB")


def orphan(folder):
    """a page that nothing makes"""
    open(os.path.join(folder, "old.md"), "w").close()


def shown(folder):
    """a number that a page of docs/ shows"""
    change(os.path.join(folder, "..", "docs", "speed.md"), r"^(\| .*\| avx2 \|.*)\d \|$", r"\g<1>99 |")


complains(number, "performance.md")
complains(shown, "../docs/speed.md")
complains(note, "performance.md")
complains(page, "performance.md")
complains(orphan, "old.md")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "bad.csv")
    for text, expected in (("a,b\n1,2\n", "no line"), ("# colour: red\na\n1\n", "unknown line"),
                           ("".join(f"# {key}: 1\n" for key in results.REQUIRED) + "a,b\n1\n", "rows of different lengths")):
        open(path, "w").write(text)
        try:
            results.read_table(path)
            sys.exit(f"a table is read that has {expected}")
        except ValueError as error:
            assert expected in str(error), error
