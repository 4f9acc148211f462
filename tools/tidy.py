#!/usr/bin/env python3
"""tidy - the style rules that a machine can check. Exit status 1 if the tree is untidy.

    tools/tidy.py [--strict] [--summary] [ROOT]

--strict checks the language and the proportions too: words that must not come back (WORDS), struct
tags and file stems that exist twice, structs with too many fields, comment density, assertions per
function. --summary ends with the number of complaints by rule and folder.

Levels are listed bottom first. A file may include headers of its own folder, of folders on lower
lines and the public headers; never of a higher line and never of a neighbour on its own line.
src/cli may include nothing but its own folder and the public headers.
"""
import argparse
import collections
import os
import re
import sys

LEVELS = [
    ["base"],
    ["tensor"],
    ["codec", "rule", "learner", "transport", "engine", "data", "store"],
    ["comm", "model"],
    ["space", "split"],
    ["trainer"],
    ["strategy"],
    ["run"],
    ["lab"],
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
SYSTEM_FOLDERS = {"base", "transport", "cli", "lab", "serve"}
SYSTEM_ALLOWED = {
    "src/data/prefetch.c": "the prefetching thread",
    "src/data/loader.c": "the prefetching thread",
    "src/data/stream_cache.c": "the threads that read shards",
    "src/engine/cpu/cpu.c": "chooses among methods by measurement",
    "src/engine/cpu/conv_choose.c": "chooses among methods by measurement",
    "src/engine/cpu/gemm.c": "tells a library once how many threads to use",
    "src/run/pass_trial.c": "measures passes for choices of sizes and stages",
    "src/run/run_clock.c": "says how long a run took",
    "src/run/result.c": "says how much memory a run took",
    "src/run/sink/tensorboard.c": "says when events were",
    "src/run/sink/store_sink.c": "starts the store writer, and says when events were",
    "src/run/sink/store_writer.c": "the thread that writes to the store",
    "src/run/features.c": "asks the machine once",
    "src/run/parts.c": "asks the machine once",
}
# The folders that hold kernels: only these read and write elements of views (tensor/device.h).
MAP_FOLDERS = {"tensor", "codec", "rule", "engine"}
BANNED_ALLOWED = {("src/base/err.c", "abort"), ("src/base/memory.c", "malloc")}

# Words and phrases that must not come back: (regular expression, what to write, where). A space stands
# for any white space, so that a phrase is found across lines; case does not matter. Where: "c" comments,
# "s" strings, "n" names in code (their parts between underscores), "p" names of production code alone, "d"
# documents. What is fine in one sense (pages that turn up, numbers far apart) is only looked for where it
# is a private word. A string may have an old option's name if a comment on its line says `old name`.
WORDS = [
    (r"ways? (?:forward|back|there)|the way (?:down|up)", "forward pass, backward pass, or the direction", "csnd"),
    (r"ow(?:e|es|ed|ing)", "residual, pending, uncharged or saved state", "csnd"),
    (r"kept|keeper", "persisted, retained, stored, residual or mixing weight", "csnd"),
    (r"keeps?|keeping", "persist, checkpoint, retain or store writer", "p"),
    (r"near|far", "local, remote", "p"),
    (r"at hand|(?:near|far) (?:stores?|actors?|owners?|readers?|writers?|ranges?|spaces?|workers?|servers?)",
     "local, remote", "csnd"),
    (r"then", "phase", "p"),
    (r"apart", "the property that is meant", "p"),
    (r"carried", "contributed, contributions, sent", "csnd"),
    (r"carry|carries", "contribution", "p"),
    (r"chances?", "random, at random, with probability p", "csnd"),
    (r"lessons?", "gradient request, batch", "csnd"),
    (r"judg(?:e|es|ed|ing|ement|ements)", "evaluate, count", "csnd"),
    (r"seats?|seated|sits? down", "worker context, server context", "csnd"),
    (r"glanc(?:e|es|ed|ing)", "snapshot", "csnd"),
    (r"tapes?", "trace, recording", "csnd"),
    (r"hogs?|talkers?|pupils?", "replica, sender, student", "csnd"),
    (r"meet|meets|meetings?", "synchronise, barrier", "csnd"),
    (r"turns?", "lock order, slot", "p"),
    (r"(?:a|the|its|his|whose|own|every|next|takes?) turns?", "lock order, slot", "csd"),
    (r"likewise", "the fact, in three words", "csnd"),
    (r"goes on|go on|going on|went on|gone on", "continue, run, take place", "csnd"),
    (r"(?:comes?|came|coming) in(?=\s*[.,;:)]| (?:and|as|at|by|from|or|since|when|while) )", "arrive", "csd"),
    (r"(?:is|are|be|was|were) had|had by", "is owned by", "csnd"),
    (r"(?:the|its|from|first) begin", "start", "csd"),
    (r"so many|so much(?! that)|thus many", "n, count", "csnd"),
    (r"pric(?:e|es|ed|ing|ier)", "cost", "csnd"),
    (r"there (?:is|are|was|were) none|(?:is|are) none", "name the thing that is missing", "csd"),
    (r"foretold|foretells?|foresaw", "forecast", "csnd"),
    (r"that which|those who", "a noun", "csd"),
]
# A comment that is no more than this does not stand alone.
ALONE = r"(?:and |or )?(?:likewise|(?:all )?the same|same|its|theirs?|of them|of it|of these|of those|as above|ditto|" \
        r"the others?|the rest|both|so is this|as well)"
WORDS_EXEMPT = {"tools/tidy.py", "tests/house/tidy_complains.py"}  # the list itself
FIELDS_MAX, DENSITY_MIN, ASSERTIONS_MIN = 25, 0.25, 1.0
FIELDS_ALLOWED = {  # struct: why it may have more fields
    "fast_compared": "the result of a system in a comparison",
    "fast_result": "the result of a run",
    "fast_run_config": "the options of a run",
    "fast_space_options": "the options of a space",
    "fast_stored_run": "a row of the store",
    "ps_config": "the options of a strategy",
}
ASSERTING = ("comm", "space", "trainer", "strategy")
errors = []
counts = collections.Counter()  # (rule, folder): complaints


def complain(path, line, text, rule="basic"):
    errors.append(f"{path}:{line}: {text}")
    parts = path.split("/")
    counts[rule, "/".join(parts[:2]) if parts[0] == "src" else parts[0]] += 1


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


def check_maps(path, folder, code):
    """Code above the kernels passes views on and never opens them."""
    if folder in MAP_FOLDERS:
        return
    for match in re.finditer(r"\bfast__view_(?:un)?map\b", code):
        complain(path, line_of(code, match.start()),
                 f"{folder}/ may not open a view ({match.group(0)}): call a kernel of tensor/view.h, or write one")


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
        check_maps(path, parts[1], code)
        if parts[1] not in ("cli", "serve"):
            check_banned(path, code)


TOKEN = re.compile(r'(?P<c>/\*.*?\*/|//[^\n]*)|(?P<s>"(?:\\.|[^"\\\n])*")|(?P<l>\'(?:\\.|[^\'\\\n])*\')', re.S)


def word_patterns():
    """One regular expression for each kind of text, and what to write instead of what it finds."""
    made = {}
    for kind, wanted in (("c", "c"), ("s", "s"), ("n", "n"), ("p", "np"), ("d", "d")):
        rows = [(pattern, instead) for pattern, instead, where in WORDS if set(wanted) & set(where)]
        text = "|".join(f"(?P<w{i}>{pattern})".replace(" ", r"\s+") for i, (pattern, _) in enumerate(rows))
        made[kind] = re.compile(rf"\b(?:{text})\b", re.I), [instead for _, instead in rows]
    return made


PATTERNS = word_patterns()


def find_words(path, kind, text, lines):
    """Complain about words of the list in a text that has the lines of its file."""
    pattern, instead = PATTERNS[kind]
    for match in pattern.finditer(text):
        line = line_of(text, match.start())
        if kind == "s" and re.search(r"/\*.*\bold name\b.*\*/", lines[line - 1]):
            continue
        word = " ".join(match.group(0).split())
        complain(path, line, f'"{word}": write {instead[int(match.lastgroup[1:])]}', "words")


def check_comment(path, line, comment):
    """A comment stands alone, and its subject is a noun."""
    text = " ".join(re.sub(r"^\s*\*(?!/)", " ", comment.strip("/").strip("*"), flags=re.M).split())
    if re.fullmatch(ALONE + r"[.;,:]?", text, re.I) or re.match(r"of them\b", text, re.I):
        complain(path, line, f'comment "{text}" does not stand alone', "comments")
    if re.match(r"what\b", text, re.I):
        complain(path, line, f'comment opens with "What": "{text[:40]}"', "comments")


def check_words(path, source, lines):
    """Comments, strings and names of a C file."""
    at, parts = 0, {"c": [], "s": [], "n": []}
    for match in TOKEN.finditer(source):
        space, text = re.sub(r"[^\n]", " ", match.group(0)), match.group(0)
        for kind in parts:
            parts[kind].append(source[at:match.start()] if kind == "n" else
                               re.sub(r"[^\n]", " ", source[at:match.start()]))
        parts["c"].append(re.sub(r"(?m)^(\s*)\*", r"\1 ", text) if match.group("c") else space)
        parts["s"].append(" " + text[1:-1] + " " if match.group("s") else space)
        parts["n"].append(space)
        if match.group("c"):
            check_comment(path, line_of(source, match.start()), text)
        at = match.end()
    names = re.sub(r"(?m)^[ \t]*#[ \t]*include.*$", "", "".join(parts["n"]) + source[at:])
    find_words(path, "c", "".join(parts["c"]), lines)
    find_words(path, "s", re.sub(r"\\[nt]", "  ", "".join(parts["s"])), lines)
    is_production = path.startswith(("src/", "include/")) and not path.endswith("_test.c")
    find_words(path, "p" if is_production else "n", names.replace("_", " "), lines)


def check_document(root, path):
    """Prose: pages in Markdown without their code, transcripts, and programs that are not in C."""
    text = open(os.path.join(root, path), errors="replace").read()
    if path.endswith(".py"):
        text = re.sub(r"is (?:not )?None", blank, text)
    if path.endswith(".md"):
        text = re.sub(r"```.*?```|`[^`\n]*`", blank, text, flags=re.S)
    find_words(path, "d", text, text.split("\n"))


def split_fields(body):
    """The fields of a struct's body: declarators of its own level."""
    while re.search(r"\{[^{}]*\}", body):
        body = re.sub(r"\{[^{}]*\}", " ", body)
    while re.search(r"\([^()]*\)", body):
        body = re.sub(r"\([^()]*\)", " ", body)
    body = re.sub(r"(?m)^\s*#.*$", "", body)
    return [name for line in body.split(";") if line.strip() for name in line.split(",")]


def find_structs(code):
    """(tag, position, body) of every struct and union that is defined."""
    for match in re.finditer(r"\b(?:struct|union)\s+(?:\w+\s+)??(\w+)?\s*\{", code):
        depth, end = 1, match.end()
        while depth and end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        after = re.match(r"\s*(\w+)\s*;", code[end:])
        tag = match.group(1) or (after and after.group(1) if code[:match.start()].rstrip().endswith("typedef") else None)
        if tag:
            yield tag, match.start(), code[match.end():end - 1]


def is_plugin_pair(a, b):
    """Files of two plug-ins of one contract (src/engine/cpu/, src/engine/ref/): each may have a file by the
    same name, and its own body of the contract's opaque handle."""
    a, b = a.split("/"), b.split("/")
    return len(a) == len(b) == 4 and a[:2] == b[:2] and a[2] != b[2]


def is_contract_pair(a, b):
    """A contract's header (src/comm/topology.h) and its implementation one folder below."""
    return os.path.dirname(os.path.dirname(b)) == os.path.dirname(a)


def clash(paths):
    """Is there a pair among them that is not of two plug-ins?"""
    return any(not is_plugin_pair(a, b) for i, a in enumerate(paths) for b in paths[:i])


class Proportions:
    """What is counted over the whole tree, for the rules on tags, stems, density and assertions."""

    def __init__(self):
        self.tags = collections.defaultdict(list)   # tag: (path, line, body)
        self.fields = collections.Counter()         # tag
        self.stems = collections.defaultdict(set)   # stem: folder/stem of the files that have it
        self.sources = set()                        # folder/stem of those that are more than a header
        self.lines = collections.Counter()          # (folder, "code" or "comment")
        self.functions = collections.Counter()      # folder
        self.assertions = collections.Counter()     # folder

    def read(self, path, source, code):
        parts = path.split("/")
        for tag, position, body in find_structs(code):
            self.tags[tag].append((path, line_of(code, position), " ".join(body.split())))
            fields = len(split_fields(body))
            self.fields[tag] = max(self.fields[tag], fields)
            if fields > FIELDS_MAX and tag not in FIELDS_ALLOWED:
                complain(path, line_of(code, position), f"struct {tag} has {fields} fields, limit {FIELDS_MAX}", "fields")
        if parts[0] != "src":
            return
        stem, ending = os.path.splitext(path)
        self.stems[os.path.basename(stem)].add(stem)
        self.sources.update({stem} if ending == ".c" else {})
        folder = parts[1]
        for plain, stripped in zip(source.split("\n"), code.split("\n")):
            self.lines[folder, "code"] += bool(stripped.strip())
            self.lines[folder, "comment"] += plain.strip() != stripped.strip() and bool(
                re.search(r"/\*|\*/|//|^\s*\*|^[^\"]*$", plain))
        self.functions[folder] += len(re.findall(r"(?m)^\{", code))
        self.assertions[folder] += len(re.findall(r"\b(?:FAST_ASSERT\w*|_Static_assert|static_assert)\s*\(", code))

    def check(self):
        for tag, places in sorted(self.tags.items()):
            if len({body for _, _, body in places}) > 1 and clash([path for path, _, _ in places]):
                for path, line, _ in places:
                    complain(path, line, f"struct {tag} is defined {len(places)} times", "tags")
        for name, stems in sorted(self.stems.items()):
            above = {a for a in stems - self.sources for b in stems if is_contract_pair(a, b)}
            if clash(sorted(stems - above)):
                for stem in sorted(stems):
                    complain(stem, 1, f"file stem {name} exists {len(stems)} times", "stems")
        for tag in FIELDS_ALLOWED:
            if self.fields[tag] <= FIELDS_MAX:
                complain("tools/tidy.py", 1, f"struct {tag} needs no exemption: {self.fields[tag]} fields", "fields")
        for folder in sorted({folder for folder, _ in self.lines}):
            density = self.lines[folder, "comment"] / max(1, self.lines[folder, "code"])
            if density < DENSITY_MIN:
                complain(f"src/{folder}", 1, f"{density:.2f} comment lines a code line, at least {DENSITY_MIN}", "density")
        for folder in ASSERTING:
            share = self.assertions[folder] / max(1, self.functions[folder])
            if self.functions[folder] and share < ASSERTIONS_MIN:
                complain(f"src/{folder}", 1, f"{share:.2f} assertions a function, at least {ASSERTIONS_MIN}", "assertions")


def check_strict(root):
    tree = Proportions()
    for path in list_files(root, ("include", "src", "tests", "bench", "examples"), (".c", ".h", ".inc", ".cu")):
        source = open(os.path.join(root, path), errors="replace").read()
        check_words(path, source, source.split("\n"))
        if path.startswith(("src/", "include/")) and not path.endswith("_test.c"):
            tree.read(path, source, strip(source))
    tree.check()
    for path in sorted(name for name in os.listdir(root) if name.endswith(".md") and name != "CHANGELOG.md"):
        check_document(root, path)
    for path in list_files(root, ("docs", "examples", "results"), (".md",)):
        check_document(root, path)
    for path in list_files(root, ("tests/cli",), (".txt",)):
        check_document(root, path)
    for path in list_files(root, ("tests", "tools", "examples", "bench"), (".py", ".sh")):
        check_document(root, path)
    for path in list_files(root, ("ui/src", "ui/tests"), (".ts", ".tsx", ".js", ".mjs", ".css", ".html")):
        check_document(root, path)
    for path in list_files(root, ("tools",), ("",)):
        if "." not in os.path.basename(path):
            check_document(root, path)  # scripts of the shell


def list_files(root, tops, endings):
    for top in tops:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                path = os.path.relpath(os.path.join(folder, name), root)
                if name.endswith(endings) and path not in WORDS_EXEMPT:
                    yield path


def print_summary():
    folders = sorted({folder for _, folder in counts})
    rules = sorted({rule for rule, _ in counts})
    print(f"{'':16}" + "".join(f"{rule:>12}" for rule in rules))
    for folder in folders:
        print(f"{folder:16}" + "".join(f"{counts[rule, folder]:>12}" for rule in rules))
    print(f"{'all':16}" + "".join(f"{sum(counts[rule, f] for f in folders):>12}" for rule in rules))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--strict", action="store_true", help="check the language and the proportions too")
    parser.add_argument("--summary", action="store_true", help="count complaints by rule and folder")
    parser.add_argument("root", nargs="?", default=".")
    options = parser.parse_args()
    root = options.root
    for top in ("include", "src", "tests", "bench", "examples"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in sorted(files):
                if name.endswith((".c", ".h", ".inc", ".cu")):
                    check_file(root, os.path.relpath(os.path.join(folder, name), root))
    if options.strict:
        check_strict(root)
    print("\n".join(errors) if errors else "tidy")
    if options.summary and errors:
        print_summary()
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
