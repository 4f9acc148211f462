"""Levels, as the linker sees them: no object file needs a symbol that a higher level, or a neighbour on
its own level, defines. tools/tidy.py compares the includes; a public header hides who defines what it
declares, the object files do not. src/cli may need public functions of any folder and nothing private.

Usage: link_edges.py ROOT FOLDER CC, where FOLDER/*.dir/src mirrors the sources (CMake's CMakeFiles).
"""
import collections
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

# Upward edges that are still there: (from, to): symbols. One that no longer exists is an error, so that
# the list can only shrink.
ALLOWED = {}


def load_tidy(root):
    spec = importlib.util.spec_from_file_location("tidy", os.path.join(root, "tools", "tidy.py"))
    tidy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tidy)
    return tidy


def read_objects(folder, is_source):
    """Symbols by the source that defines them, and the symbols that each source needs."""
    paths = {}
    for path in glob.glob(os.path.join(folder, "*.dir", "src", "**", "*.c.o"), recursive=True):
        source = "src/" + path.split(".dir/src/")[1].removesuffix(".o")
        if is_source(source):  # older builds leave objects of sources that are gone
            paths[path] = source
    defined, needed = {}, collections.defaultdict(set)
    listing = subprocess.run(["nm", "-A", "-g", "-P", *paths], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        path, symbol, kind = line.split()[:3]
        source = paths[path.removesuffix(":")]
        if kind in "Uwv":
            needed[source].add(symbol.split("@")[0])
        else:
            defined[symbol] = source
    return defined, needed, len(paths)


def is_wrong(level, source, target, symbol):
    """May `source` not need `symbol`, which `target` defines? Both are folders of src/."""
    if source == target:
        return False
    if source == "cli":
        return symbol.startswith("fast__")
    return level.get(target, -1) >= level.get(source, -1)


def complaints(level, folder, allowed, is_source):
    """What is wrong with the objects under a folder, and how many there are."""
    defined, needed, count = read_objects(folder, is_source)
    permitted = {(*pair, symbol) for pair, text in allowed.items() for symbol in text.split()}
    found, used = [], set()
    for source in sorted(needed):
        for symbol in sorted(needed[source] & defined.keys()):
            edge = (source.split("/")[1], defined[symbol].split("/")[1], symbol)
            if not is_wrong(level, *edge):
                continue
            if edge in permitted:
                used.add(edge)
                continue
            found.append(f"{source} needs {symbol} of {defined[symbol]}: {edge[0]}/ may not use {edge[1]}/")
    for folder_name in sorted({source.split("/")[1] for source in {*needed, *defined.values()}} - level.keys()):
        found.append(f"src/{folder_name} has no level in tools/tidy.py")
    for edge in sorted(permitted - used):
        found.append(f"{edge[0]} -> {edge[1]}: {edge[2]} is allowed, but no such edge exists; delete it from ALLOWED")
    return found, count


def check_that_it_complains(level, compiler):
    """An edge up, one to a neighbour, one of cli to a private function; edges down are as they should be."""
    sources = {
        "src/base/low.c": "int fast__low(void);\nint fast__high(void);\nint fast__low(void)\n{\n    return fast__high();\n}\n",
        "src/run/high.c": "int fast__high(void);\nint fast__low(void);\nint fast__high(void)\n{\n    return fast__low();\n}\n",
        "src/rule/near.c": "extern char fast__codec[];\nchar *fast__rule = fast__codec;\n",
        "src/codec/near.c": "char fast__codec[1];\n",
        "src/cli/main.c": "int fast__low(void);\nint main(void);\nint main(void)\n{\n    return fast__low();\n}\n",
        "src/attic/old.c": "int fast__old;\n",
    }
    expect = ["src/base/low.c needs fast__high of src/run/high.c: base/ may not use run/",
              "src/rule/near.c needs fast__codec of src/codec/near.c: rule/ may not use codec/",
              "src/cli/main.c needs fast__low of src/base/low.c: cli/ may not use base/",
              "src/attic has no level in tools/tidy.py"]
    stale = "rule -> run: fast__gone is allowed, but no such edge exists; delete it from ALLOWED"
    with tempfile.TemporaryDirectory() as folder:
        for path, text in sources.items():
            source = os.path.join(folder, "core.dir", path)
            os.makedirs(os.path.dirname(source), exist_ok=True)
            with open(source, "w") as out:
                out.write(text)
            subprocess.run([compiler, "-c", source, "-o", source + ".o"], check=True)
        found = complaints(level, folder, {}, lambda source: True)[0]
        if sorted(found) != sorted(expect):
            sys.exit(f"expected {expect}, found {found}")
        allowed = {("base", "run"): "fast__high", ("rule", "run"): "fast__gone"}
        found = complaints(level, folder, allowed, lambda source: True)[0]
        if sorted(found) != sorted(expect[1:] + [stale]):
            sys.exit(f"with a list of allowed edges, found {found}")


def main():
    root, folder, compiler = sys.argv[1:4]
    if not shutil.which("nm"):
        sys.exit(77)
    level = load_tidy(root).LEVEL
    check_that_it_complains(level, compiler)
    found, count = complaints(level, folder, ALLOWED, lambda source: os.path.exists(os.path.join(root, source)))
    if count < 20:
        sys.exit(f"only {count} object files under {folder}")
    if found:
        sys.exit("\n".join(found))


main()
