"""docs/options.md and docs/systems.md are what the program prints; the man page has no warnings; completions parse."""
import os
import shutil
import subprocess
import sys

root, program = sys.argv[1], sys.argv[2]


def make(*flags):
    return subprocess.run([program, "help", *flags], capture_output=True, text=True, check=True).stdout


made = make("--markdown")
if made != open(os.path.join(root, "docs", "options.md")).read():
    sys.exit("docs/options.md is old: build/release/fast help --markdown > docs/options.md")
assert len(made) > 2000

systems = subprocess.run([program, "systems", "--markdown"], capture_output=True, text=True, check=True).stdout
if systems != open(os.path.join(root, "docs", "systems.md")).read():
    sys.exit("docs/systems.md is old: build/release/fast systems --markdown > docs/systems.md")

page = make("--man")
assert ".SH" in page and "--model" in page.replace("\\-", "-")
if shutil.which("man"):
    result = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", "-"],
                            input=page, capture_output=True, text=True)
    if result.stderr.strip():
        sys.exit("man: " + result.stderr)
subprocess.run(["bash", "-n"], input=make("--complete", "bash"), text=True, check=True)
for shell in ("zsh", "fish"):
    script = make("--complete", shell)
    assert "train" in script and "model" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
