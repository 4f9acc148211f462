"""Every header compiles alone; the public ones also as C++ where there is a C++ compiler."""
import glob
import os
import shutil
import subprocess
import sys

root, compiler = sys.argv[1], sys.argv[2]
flags = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
         "-I" + os.path.join(root, "include"), "-I" + os.path.join(root, "src")]
failed = []


def check(command, header):
    text = f'#include "{header}"\nint only_here;\n'
    result = subprocess.run(command + ["-"], input=text, capture_output=True, text=True)
    if result.returncode:
        failed.append(f"{header}:\n{result.stderr[:1500]}")


headers = glob.glob(os.path.join(root, "src", "**", "*.h"), recursive=True)
public = glob.glob(os.path.join(root, "include", "fast", "*.h"))
assert len(headers) > 10 and len(public) >= 3
for header in headers + public:
    check([compiler, "-x", "c", "-std=c17", *flags], header)
if shutil.which("g++"):
    for header in public:
        check(["g++", "-x", "c++", "-std=c++17", *flags], header)
if failed:
    sys.exit("\n".join(failed))
