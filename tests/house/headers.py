"""Every header compiles alone; the public ones also as C++ where there is a C++ compiler.

Usage: headers.py ROOT COMPILER [folder of a library's headers]... Headers of the transport mpi count
where those of MPI are there.
"""
import glob
import os
import shutil
import subprocess
import sys

root, compiler = sys.argv[1], sys.argv[2]
flags = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only",
         "-I" + os.path.join(root, "include"), "-I" + os.path.join(root, "src")]
folders = sys.argv[3:]
flags += [word for folder in folders for word in ("-isystem", folder)]
failed = []


def check(command, header):
    text = f'#include "{header}"\nint only_here;\n'
    result = subprocess.run(command + ["-"], input=text, capture_output=True, text=True)
    if result.returncode:
        failed.append(f"{header}:\n{result.stderr[:1500]}")


headers = glob.glob(os.path.join(root, "src", "**", "*.h"), recursive=True)
public = glob.glob(os.path.join(root, "include", "fast", "*.h"))
# Headers of ours that need a library's, which may be missing.
for needed, part in (("mpi.h", "/transport/mpi/"), ("sqlite3.h", "/store/sql.h"),
                     ("microhttpd.h", "/serve/serve_request.h")):
    if not any(os.path.exists(os.path.join(folder, needed)) for folder in folders):
        headers = [header for header in headers if part not in header]
assert len(headers) > 10 and len(public) >= 3
for header in headers + public:
    check([compiler, "-x", "c", "-std=c17", *flags], header)
if shutil.which("g++"):
    for header in public:
        check(["g++", "-x", "c++", "-std=c++17", *flags], header)
if failed:
    sys.exit("\n".join(failed))
