"""Every example in a comment of a public header compiles for a user: with that header alone, without any
private one. Usage: header_examples.py ROOT COMPILER.

An example is a paragraph of a block comment that begins five columns behind its stars:

     *     fast_run *run = NULL;

Functions in it, which begin in its first column and end with a } there, stay functions; the other lines
become the body of one. <stdio.h>, <stdlib.h> and <string.h> are included.
"""
import glob
import os
import re
import subprocess
import sys

FLAGS = ["-x", "c", "-std=c17", "-Wall", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror",
         "-Wno-unused-function", "-fsyntax-only"]


def find_examples(text):
    """(line, lines of code) of each example in a header."""
    found, code, start, blank = [], [], 0, True
    for number, line in enumerate(text.split("\n") + [""], 1):
        match = re.match(r" \* {5}(.*)$", line)
        if match and (code or (blank and not match.group(1).startswith(" "))):
            start = start if code else number
            code.append(match.group(1))
        elif line == " *" and code and re.match(r" \* {5}", text.split("\n")[number]):
            code.append("")  # an empty line inside
        else:
            if code:
                found.append((start, code))
            code = []
        blank = line == " *"
    return found


def make_program(header, code):
    """A translation unit of an example: its functions, and a function of its other lines."""
    functions, body, inside = [], [], False
    for i, line in enumerate(code):
        begins = line[:1].isalpha() and i + 1 < len(code) and code[i + 1] == "{"
        inside = inside or begins
        (functions if inside else body).append(line)
        inside = inside and line != "}"
    text = f'#include "fast/{header}"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n'
    text += "\n".join(functions) + "\n"
    return text + "int example(void);\nint example(void)\n{\n" + "\n".join(body) + "\nreturn 0;\n}\n"


def compile_text(root, compiler, text):
    """What the compiler says; empty if it takes it."""
    result = subprocess.run([compiler, *FLAGS, "-I" + os.path.join(root, "include"), "-"], input=text,
                            capture_output=True, text=True)
    return result.stderr if result.returncode else ""


def check_that_it_complains(root, compiler):
    header = "\n".join(["/*", " * A header.", " *", " *     static int f(int x)", " *     {", " *         return x;",
                        " *     }", " *", " *     int y = f(1);", " *     printf(\"%d\\n\", y);", " *",
                        " *   Words      A list", " *              of two lines.", " */"])
    examples = find_examples(header)
    if len(examples) != 1 or len(examples[0][1]) != 7:
        sys.exit(f"expected one example of seven lines, found {examples}")
    program = make_program("fast.h", examples[0][1])
    if compile_text(root, compiler, program):
        sys.exit("does not take a good example:\n" + compile_text(root, compiler, program))
    if not compile_text(root, compiler, program.replace("f(1)", "FAST_TRY(f(1))")):
        sys.exit("takes an example that needs a private header")


def main():
    root, compiler = sys.argv[1:3]
    check_that_it_complains(root, compiler)
    failed, count = [], 0
    for path in sorted(glob.glob(os.path.join(root, "include", "fast", "*.h"))):
        name = os.path.basename(path)
        for line, code in find_examples(open(path).read()):
            count += 1
            said = compile_text(root, compiler, make_program(name, code))
            if said:
                failed.append(f"include/fast/{name}:{line}:\n{said[:1500]}")
    if count < 4:
        sys.exit(f"only {count} examples")
    if failed:
        sys.exit("\n".join(failed))


main()
