#!/usr/bin/env python3
"""tidy - the style rules that a machine can check. Usage: tools/tidy.py [ROOT]; exit 1 if untidy.

Levels are listed bottom first. A file may include headers of its own folder, of folders on lower
lines and the public headers; never of a higher line and never of a neighbour on its own line.
src/cli may include nothing but its own folder and the public headers.
"""
import os
import re
import sys

LEVELS = [
    ["base"],
    ["tensor"],
    ["codec", "rule", "learner", "transport", "engine", "data", "store"],
    ["comm", "model"],
    ["strategy"],
    ["run"],
    ["cli", "serve"],
]
LEVEL = {name: i for i, row in enumerate(LEVELS) for name in row}
FILE_MAX, HEADER_MAX, FUNCTION_MAX, COLUMN_MAX = 800, 400, 70, 100
BANNED = {  # function: what to use instead
    "strcpy": "snprintf", "strcat": "snprintf", "sprintf": "snprintf", "atoi": "fast__parse_int",
    "atof": "fast__parse_real", "rand": "fast__rng", "srand": "fast__rng", "random": "fast__rng",
    "exit": "return an error", "abort": "FAST_ASSERT", "printf": "fast__log", "puts": "fast__log",
    "alloca": "the arena", "malloc": "fast__alloc", "calloc": "fast__alloc", "realloc": "fast__alloc",
}
# The system's clock, randomness and threads: only the base level may ask for them, or runs in a
# simulator would not repeat.
SYSTEM = ["time", "clock", "clock_gettime", "gettimeofday", "nanosleep", "usleep", "sleep", "getrandom",
          "pthread_create", "pthread_mutex_init", "pthread_cond_wait", "pthread_cond_timedwait"]
# Who else may, and why.
SYSTEM_ALLOWED = {"src/data/prefetch.c", "src/data/loader.c"}  # the prefetching thread
BANNED_ALLOWED = {("src/base/err.c", "abort"), ("src/base/memory.c", "malloc")}
errors = []


def complain(path, line, text):
    errors.append(f"{path}:{line}: {text}")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def strip(source):
    """The source with comments and literals blanked out, line structure kept."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, source, flags=re.S)


def line_of(source, position):
    return source.count("\n", 0, position) + 1


def check_levels(path, folder, source):
    for match in re.finditer(r'^\s*#\s*include\s+"([a-z_]+)/', source, re.M):
        target = match.group(1)
        if target in ("fast", folder) or target not in LEVEL or folder not in LEVEL:
            continue
        if folder == "cli" or LEVEL[target] >= LEVEL[folder]:
            complain(path, line_of(source, match.start(1)), f"{folder}/ may not include {target}/")


def check_siblings(path, parts, source):
    """src/<folder>/<plugin>/: a plug-in may not include another plug-in."""
    if len(parts) < 4:
        return
    for match in re.finditer(rf'#\s*include\s+"{parts[1]}/([a-z_0-9]+)/', source):
        if match.group(1) != parts[2]:
            complain(path, line_of(source, match.start()),
                     f"{parts[2]} may not include its neighbour {match.group(1)}")


def check_functions(path, code):
    depth, start = 0, 0
    for number, line in enumerate(code.split("\n"), 1):
        if depth == 0 and line.startswith("{"):
            start = number - 1
        depth += line.count("{") - line.count("}")
        if depth == 0 and start and line.startswith("}"):
            if number - start + 1 > FUNCTION_MAX:
                complain(path, start, f"function of {number - start + 1} lines, limit {FUNCTION_MAX}")
            start = 0


def check_macros(path, code):
    for match in re.finditer(r"^#\s*define\s+(\w+)\(.*?(?<!\\)$", code, re.M | re.S):
        if re.match(r"\s*\\?\s*static\b", match.group(0).partition(")")[2]):
            continue  # a macro that defines functions: the returns are theirs
        if re.search(r"\b(return|goto)\b", match.group(0)) and match.group(1) not in ("FAST_TRY", "X"):
            complain(path, line_of(code, match.start()), f"macro {match.group(1)} hides a return or goto")


def check_banned(path, code):
    for match in re.finditer(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(", code):
        if (path, match.group(1)) not in BANNED_ALLOWED:
            complain(path, line_of(code, match.start()),
                     f"{match.group(1)}() is banned, use {BANNED[match.group(1)]}")


def check_system(path, folder, code):
    if folder in ("base", "transport", "cli", "serve") or path in SYSTEM_ALLOWED:
        return
    for match in re.finditer(r"(?<![\w.>])(" + "|".join(SYSTEM) + r")\s*\(", code):
        complain(path, line_of(code, match.start()),
                 f"{match.group(1)}() belongs to the base level or a transport")


def check_file(root, path):
    source = open(os.path.join(root, path), errors="replace").read()
    lines, parts = source.split("\n"), path.split(os.sep)
    limit = HEADER_MAX if path.endswith((".h", ".inc")) else FILE_MAX
    if not source.startswith("/* SPDX-License-Identifier: Apache-2.0 */"):
        complain(path, 1, "no licence line")
    if len(lines) > limit:
        complain(path, limit, f"file of {len(lines)} lines, limit {limit}")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMN_MAX:
            complain(path, number, f"line of {len(line)} columns, limit {COLUMN_MAX}")
        if re.search(r"\bTODO\b(?!\(#\d+\))|\bFIXME\b|\bXXX\b", line):
            complain(path, number, "unfinished work without an issue number")
    code = strip(source)
    if parts[0] == "src":
        check_levels(path, parts[1], source)
        check_siblings(path, parts, source)
    check_functions(path, code)
    check_macros(path, code)
    if parts[0] == "src" and not path.endswith("_test.c"):
        check_system(path, parts[1], code)
        if parts[1] not in ("cli", "serve"):
            check_banned(path, code)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    for top in ("include", "src", "tests", "bench", "examples"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if name.endswith((".c", ".h", ".inc", ".cu")):
                    check_file(root, os.path.relpath(os.path.join(folder, name), root))
    print("\n".join(errors) if errors else "tidy")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
