"""Every C file is as clang-format writes it."""
import glob
import os
import shutil
import subprocess
import sys

tool = shutil.which("clang-format-14") or shutil.which("clang-format")
if not tool or " 14." not in subprocess.run([tool, "--version"], capture_output=True, text=True).stdout:
    print("no clang-format 14")
    sys.exit(77)
files = [path for top in ("include", "src", "tests", "bench", "examples") for kind in ("*.[ch]", "*.inc")
         for path in glob.glob(os.path.join(sys.argv[1], top, "**", kind), recursive=True)]
assert len(files) > 20
result = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True)
if result.returncode:
    sys.exit("run `make format`:\n" + result.stderr[:4000])
