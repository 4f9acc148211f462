"""libfast exports exactly the functions that the public headers declare with FAST_API."""
import glob
import os
import re
import subprocess
import sys

root, library = sys.argv[1], sys.argv[2]
declared = set()
for header in glob.glob(os.path.join(root, "include", "fast", "*.h")):
    text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
    for match in re.finditer(r"^FAST_API\b[^;]*?\b(fast_\w+)\s*\(", text, re.M | re.S):
        declared.add(match.group(1))
listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
exported = {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}
exported -= {"_init", "_fini", "__bss_start", "_edata", "_end"}
assert len(declared) > 20
if declared != exported:
    sys.exit(f"declared, not exported: {sorted(declared - exported)}\n"
             f"exported, not declared: {sorted(exported - declared)}")
