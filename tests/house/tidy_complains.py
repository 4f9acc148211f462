"""tidy must complain about a bad tree: one file that breaks each rule, and one call of each function of
the system that programs of actors may not call. The rules of --strict are broken by a second tree, which
also uses the same words in ways that are fine."""
import importlib.util
import os
import subprocess
import sys
import tempfile

BAD = {
    "src/tensor/up.c": '#include "engine/engine.h"\n',
    "src/rule/neighbour.c": '#include "data/data.h"\n',
    "src/engine/ref/sibling.c": '#include "engine/cpu/cpu.h"\n',
    "src/cli/cheat.c": '#include "base/err.h"\n',
    "src/model/clock.c": "int f(void)\n{\n    return clock_gettime(0, 0);\n}\n",
    "src/model/opens.c": "float *f(fast_view v)\n{\n    return fast__view_map(v, 1);\n}\n",
    "src/space/address.c": "void *f(void)\n{\n    return (void *)fast__view_unmap;\n}\n",
    "src/engine/cpu/kernel.c": "float *f(fast_view v)\n{\n    return fast__view_map(v, 1);\n}\n",
    "src/comm/view_test.c": "float *f(fast_view v)\n{\n    return fast__view_map(v, 1);\n}\n",
    "src/model/print.c": "int f(void)\n{\n    return printf(0);\n}\n",
    "src/model/hide.h": "#define TRY_OR(x) if (x) return 1\n",
    "src/model/todo.c": "/* TO" "DO */\n",
    "src/model/wide.c": "/* " + "x" * 120 + " */\n",
    "src/model/long.c": "int f(void)\n{\n" + "    g();\n" * 80 + "}\n",
    "src/model/huge.c": "int a;\n" * 900,
}
EXPECT = ["tensor/ may not include engine/", "rule/ may not include data/", "neighbour cpu",
          "cli/ may not include base/", "clock_gettime(): the clock belongs", "printf() is banned",
          "src/model/opens.c:3: model/ may not open a view", "src/space/address.c:3: space/ may not open a view",
          "hides a return", "unfinished work", "columns", "function of", "file of", "no licence line"]

spec = importlib.util.spec_from_file_location("tidy", sys.argv[1])
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)
for kind, names in tidy.SYSTEM.items():
    for name in names.replace("*", "create").split():
        BAD[f"src/comm/call_{name}.c"] = f"int f(void)\n{{\n    return {name}(0);\n}}\n"
        EXPECT.append(f"src/comm/call_{name}.c:3: {name}(): {kind} belongs")
BAD["src/transport/call.c"] = "int f(void)\n{\n    return clock_gettime(0, 0);\n}\n"
REFUSE = ["src/transport/call.c:3", "src/engine/cpu/kernel.c:3", "src/comm/view_test.c:3"]  # allowed there

LICENCE = "/* SPDX-License-Identifier: Apache-2.0 */\n"
WORDS = {  # what each word or phrase of the list looks like where it is wrong
    "c": "way back; Way forward; owed; owes; kept; keeper; at hand; far owners; carried; by chance; lessons; "
         "judged; seat; sits down; glances; tape; hog; pupil; meets; its turn; likewise; goes on; came in; "
         "is had; its begin; so many; prices; there is none; foretold; those who",
    "p": "way_back; x_owed; fast_kept; keep_open; near_store; far_count; fast_then; apart; carried; carry_on; "
         "chance_of; fast_lesson; judge_all; seat_new; glance; tape_read; hog; meeting; turn_begin; so_many; price_of",
    "s": "kept; by chance; likewise; goes on; judged",
    "d": "way back; kept; by chance; likewise; there are none",
}
FINE = "hogwild; nearest; apart from; in turn; so far; messages carry floats; so much that; keep it; showed; " \
       "seating; then it stops; comes in slices; begins; met"  # the same letters where they are right
STRICT = {
    "src/comm/alone.c": "int a; /* likewise */\nint b; /* the same */\nint c; /* of them here */\n",
    "src/comm/opens.c": "/* What is sent. */\nint d;\n/*\n * what comes\n */\n",
    "src/comm/wrapped.c": "/* the way\n * back of a layer */\nchar *t = \"so \" \"many\";\n",
    "src/comm/one.c": "struct pair {\n    int a;\n};\n",
    "src/rule/two.c": "typedef struct pair {\n    int b;\n} pair;\nstruct same {\n    int a;\n};\n",
    "src/data/three.c": "struct same {\n    int a;\n};\n",
    "src/data/json.c": "int e;\n",
    "src/data/json.h": "int f;\n",
    "src/rule/json.c": "int g;\n",
    "include/fast/json.h": "int h;\n",
    "src/engine/ref/conv.c": "struct handle {\n    int a;\n};\n",
    "src/engine/cpu/conv.c": "struct handle {\n    int b;\n};\n",
    "src/comm/shape.h": "int i;\n",
    "src/comm/shapes/shape.c": "int j;\n",
    "src/base/wide.c": "struct wide {\n    int a, b;\n    void (*c)(int a, int b);\n"
                       + "".join(f"    int f{i};\n" for i in range(24)) + "};\n",
    "src/base/narrow.c": "struct narrow {\n    int a, b;\n    struct { int x; int y; } c;\n"
                         + "".join(f"    int f{i}[3];\n" for i in range(22)) + "};\n",
    "src/space/assert.c": "int f(void)\n{\n    FAST_ASSERT(1);\n}\n\nint g(void)\n{\n    return 0;\n}\n",
    "src/trainer/assert.c": "int f(void)\n{\n    FAST_ASSERT(1);\n}\n",
    "src/tensor/dense.c": "/* one */\nint a;\n",
    "src/model/sparse.c": "int a;\n" * 10,
    "src/run/old.c": 'const char *old = "lesson"; /* old name */\n',
    "docs/fine.md": "The option `--lesson` and\n```\nkept\n```\n",
    "tests/near_test.c": "int near_enough(void);\n",
}
STRICT_EXPECT = [
    'src/comm/alone.c:2: comment "likewise" does', 'src/comm/alone.c:3: comment "the same" does',
    'src/comm/alone.c:4: comment "of them here" does', 'src/comm/opens.c:2: comment opens with "What"',
    'src/comm/opens.c:4: comment opens with "What"', 'src/comm/wrapped.c:2: "way back"',
    'src/comm/wrapped.c:4: "so many"', "src/comm/one.c:2: struct pair is defined 2 times",
    "src/rule/two.c:2: struct pair is defined 2 times", "src/data/json:1: file stem json exists 2 times",
    "src/rule/json:1: file stem json exists 2 times", "src/base/wide.c:2: struct wide has 27 fields",
    "src/space:1: 0.50 assertions a function", "src/model:1: 0.10 comment lines a code line",
    "struct fast_result needs no exemption",
]
STRICT_REFUSE = ["struct same", "struct handle", "struct narrow", "file stem conv", "file stem shape", "src/trainer:1: 1.00 assertions",
                 "src/tensor:1", "src/run/old.c", "docs/fine.md", "tests/near_test.c", "src/comm/fine"]
for kind, text in WORDS.items():
    for i, phrase in enumerate(text.split("; ")):
        path = {"d": f"docs/word{i}.md"}.get(kind, f"src/comm/word_{kind}{i}.c")
        STRICT[path] = {"c": f"/* An {phrase}. */\n", "p": f"int {phrase};\n", "s": f'char *t = "an {phrase}";\n',
                        "d": f"\nAn {phrase}.\n"}[kind]
        STRICT_EXPECT.append(f'{path}:2: "')
for i, text in enumerate(FINE.split("; ")):
    STRICT[f"src/comm/fine_c{i}.c"] = f"/* An {text} now. */\n"
for i, text in enumerate(("hogwild_open", "nearest_index", "keepalive", "turning")):
    STRICT[f"src/comm/fine_n{i}.c"] = f"int {text};\n"


def check(files, flags, expect, refuse):
    """Run tidy over a tree of these files: it says all of `expect` and nothing of `refuse`."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), "w") as out:
                out.write(text)
        result = subprocess.run([sys.executable, sys.argv[1], *flags, root], capture_output=True, text=True)
    missing = [text for text in expect if text not in result.stdout]
    missing += [f"but says {text}" for text in refuse if text in result.stdout]
    if result.returncode != 1 or missing:
        sys.exit(f"tidy exits {result.returncode} and does not say {missing}:\n{result.stdout}{result.stderr}")


check(BAD, [], EXPECT, REFUSE)
STRICT = {path: text if path.endswith(".md") else LICENCE + text for path, text in STRICT.items()}
check(STRICT, ["--strict"], STRICT_EXPECT, STRICT_REFUSE)
summary = ["assertions    comments     density      fields       stems        tags       words", "src/comm  ", "all  "]
check(STRICT, ["--strict", "--summary"], summary, [])
