"""tidy must complain about a bad tree: one file that breaks each rule, and one call of each function of
the system that programs of actors may not call."""
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
    "src/model/print.c": "int f(void)\n{\n    return printf(0);\n}\n",
    "src/model/hide.h": "#define TRY_OR(x) if (x) return 1\n",
    "src/model/todo.c": "/* TO" "DO */\n",
    "src/model/wide.c": "/* " + "x" * 120 + " */\n",
    "src/model/long.c": "int f(void)\n{\n" + "    g();\n" * 80 + "}\n",
    "src/model/huge.c": "int a;\n" * 900,
}
EXPECT = ["tensor/ may not include engine/", "rule/ may not include data/", "neighbour cpu",
          "cli/ may not include base/", "clock_gettime(): the clock belongs", "printf() is banned",
          "hides a return", "unfinished work", "columns", "function of", "file of", "no licence line"]

spec = importlib.util.spec_from_file_location("tidy", sys.argv[1])
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)
for kind, names in tidy.SYSTEM.items():
    for name in names.replace("*", "create").split():
        BAD[f"src/comm/call_{name}.c"] = f"int f(void)\n{{\n    return {name}(0);\n}}\n"
        EXPECT.append(f"src/comm/call_{name}.c:3: {name}(): {kind} belongs")
BAD["src/transport/call.c"] = "int f(void)\n{\n    return clock_gettime(0, 0);\n}\n"
REFUSE = ["src/transport/call.c:3"]  # allowed there

with tempfile.TemporaryDirectory() as root:
    for path, text in BAD.items():
        os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
        open(os.path.join(root, path), "w").write(text)
    result = subprocess.run([sys.executable, sys.argv[1], root], capture_output=True, text=True)
    missing = [text for text in EXPECT if text not in result.stdout]
    missing += [text for text in REFUSE if text in result.stdout]
    if result.returncode != 1 or missing:
        sys.exit(f"tidy exits {result.returncode} and does not say {missing}:\n{result.stdout}")
