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
    ["space"],
    ["strategy"],
    ["run"],
    ["cli", "compare", "serve"],
]
LEVEL = {name: i for i, row in enumerate(LEVELS) for name in row}
FILE_MAX, HEADER_MAX, FUNCTION_MAX, COLUMN_MAX = 800, 400, 70, 100
BANNED = {  # function: what to use instead
    "strcpy": "snprintf", "strcat": "snprintf", "sprintf": "snprintf", "atoi": "fast__parse_int",
    "atof": "fast__parse_real", "rand": "fast__rng", "srand": "fast__rng", "random": "fast__rng",
    "exit": "return an error", "abort": "FAST_ASSERT", "printf": "fast__log", "puts": "fast__log",
    "alloca": "the arena", "malloc": "fast__alloc", "calloc": "fast__alloc", "realloc": "fast__alloc",
}
# The system's clock, randomness and threads: only the base level and transports may ask for them, or
# runs in a simulator would not repeat. Names as a source calls them and as an object file needs them
# (tests/house/system_calls.py); a last * stands for any ending. Atomics are nobody's business.
SYSTEM = {
    "the clock": "time clock clock_gettime clock_getres clock_nanosleep clock_settime gettimeofday "
                 "timespec_get times getrusage ftime nanosleep usleep sleep alarm ualarm setitimer "
                 "timer_create timer_settime timerfd_create __rdtsc __rdtscp "
                 "__builtin_ia32_rdtsc fast__clock_ns fast__clock_thread_ns fast__clock_date",
    "randomness": "rand rand_r srand random random_r srandom initstate setstate drand48 erand48 "
                  "lrand48 nrand48 mrand48 jrand48 srand48 seed48 getrandom getentropy arc4random "
                  "arc4random_buf arc4random_uniform _rdrand*",
    "threads": "pthread_* thrd_* mtx_* cnd_* tss_* call_once sem_init sem_open sem_wait sem_timedwait "
               "sem_trywait sem_post sem_destroy syscall futex sched_yield sched_getcpu "
               "sched_setaffinity sched_getaffinity sched_setscheduler getcpu fork vfork clone "
               "posix_spawn* fast__thread_start fast__thread_join",
}
# Folders that may, and single files with their reasons.
SYSTEM_FOLDERS = {"base", "transport", "cli", "compare", "serve"}
SYSTEM_ALLOWED = {
    "src/data/prefetch.c": "the prefetching thread",
    "src/data/loader.c": "the prefetching thread",
    "src/engine/cpu/cpu.c": "chooses among methods by measurement",
    "src/engine/cpu/conv_choose.c": "chooses among methods by measurement",
    "src/engine/cpu/gemm.c": "tells a library once how many threads to use",
    "src/run/bench.c": "measures",
    "src/run/bench_codec.c": "measures",
    "src/run/bench_sim.c": "measures",
    "src/run/peak.c": "measures",
    "src/run/clock.c": "says how long a run took",
    "src/run/result.c": "says how much memory a run took",
    "src/run/board.c": "says when events were",
    "src/run/keep.c": "a thread writes what is kept, and says when",
    "src/run/keep_writer.c": "the thread that writes what is kept",
    "src/run/features.c": "asks the machine once",
    "src/run/parts.c": "asks the machine once",
}
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


def system_kind(name):
    """What of the system's a function asks for, or None."""
    for kind, names in SYSTEM.items():
        for known in names.split():
            if name == known or known.endswith("*") and name.startswith(known[:-1]):
                return kind
    return None


def check_system(path, folder, code):
    if folder in SYSTEM_FOLDERS or path in SYSTEM_ALLOWED:
        return
    for match in re.finditer(r"(?<![\w.>])(\w+)\s*\(", code):
        kind = system_kind(match.group(1))
        if kind:
            complain(path, line_of(code, match.start()),
                     f"{match.group(1)}(): {kind} belongs to the base level or a transport")


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
