"""The transforms in the tree are those that their derivation prints, checked exactly."""
import os
import subprocess
import sys

root = sys.argv[1]
made = subprocess.run([sys.executable, os.path.join(root, "tools", "winograd.py")], capture_output=True,
                      text=True, check=True).stdout
path = os.path.join(root, "src", "engine", "cpu", "winograd_transforms.h")
if made != open(path).read():
    sys.exit("winograd_transforms.h is not what tools/winograd.py prints")
assert len(made) > 1000
