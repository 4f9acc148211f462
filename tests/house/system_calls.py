"""No object file above the transports needs the clock, the random generator or the threads of the system:
what tools/tidy.py sees in the sources, seen in what the compiler made of them, macros and addresses of
functions included. Usage: system_calls.py ROOT OBJECTS CC."""
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile

root, objects, compiler = sys.argv[1:4]
spec = importlib.util.spec_from_file_location("tidy", os.path.join(root, "tools", "tidy.py"))
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)


def needed(paths):
    """The symbols that object files need from elsewhere: (path, symbol) of each."""
    listing = subprocess.run(["nm", "-A", "-u", "-P", *paths], capture_output=True, text=True, check=True)
    for line in listing.stdout.splitlines():
        path, symbol = line.split()[:2]
        yield path.removesuffix(":"), symbol.split("@")[0]


def complaints(tree):
    """Of all object files under tree/src, which mirrors the sources; and how many were looked at."""
    sources = {}
    for folder, _, files in os.walk(os.path.join(tree, "src")):
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), tree)
            source = path.removesuffix(".o")
            parts = source.split(os.sep)
            if (not name.endswith(".c.o") or parts[1] in tidy.SYSTEM_FOLDERS
                    or source in tidy.SYSTEM_ALLOWED):
                continue
            if tree == objects and not os.path.exists(os.path.join(root, source)):
                continue  # left by an older build
            sources[os.path.join(tree, path)] = source
    found = [f"{sources[path]} needs {symbol}: {tidy.system_kind(symbol)}"
             for path, symbol in needed(sources) if tidy.system_kind(symbol)]
    return sorted(found), len(sources)


def check_that_it_complains():
    """An object that takes the address of each function, which the sources' check cannot see."""
    names = [name for text in tidy.SYSTEM.values() for name in text.replace("*", "create").split()
             if not name.startswith("__")]
    with tempfile.TemporaryDirectory() as tree:
        os.makedirs(os.path.join(tree, "src", "comm"))
        source = os.path.join(tree, "src", "comm", "bad.c")
        with open(source, "w") as out:
            for name in names:
                out.write(f"extern char {name}[];\nchar *use_{name} = {name};\n")
        subprocess.run([compiler, "-w", "-fno-builtin", "-c", source, "-o", source + ".o"], check=True)
        text = "\n".join(complaints(tree)[0])
        missing = [name for name in names if f"needs {name}:" not in text]
        if missing:
            sys.exit(f"does not see {missing}")


if not shutil.which("nm"):
    sys.exit(77)
check_that_it_complains()
errors, count = complaints(objects)
if count < 20:
    sys.exit(f"only {count} object files under {objects}")
if errors:
    sys.exit("\n".join(errors))
