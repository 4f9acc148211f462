"""Pages have links that lead somewhere, at most 150 lines, tables of less than 12 rows, and words of the field.

The refused words are those of tools/tidy.py, which has the only list of them.
"""
import importlib.util
import os
import re
import sys
import tempfile

spec = importlib.util.spec_from_file_location("tidy", os.path.join(sys.argv[1], "tools", "tidy.py"))
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)

GENERATED = {"docs/options.md", "docs/systems.md"}  # the program prints them
LINES_MAX, ROWS_MAX = 150, 11
SKIP = {".git", "build", "node_modules", "__pycache__", ".cache", "dist"}
TEXT = (".md", ".c", ".h", ".py", ".txt", ".cmake", ".mjs", ".tsx", ".ts", ".in", ".csv")
errors = []


def files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIP)
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower()).replace(" ", "-")


def outside_fences(text):
    """The text with fenced blocks blanked out, line structure unchanged."""
    return re.sub(r"^```.*?^```$", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.M | re.S)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_links(root, path, text):
    for match in re.finditer(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"", text):
        target = match.group(1) or match.group(2)
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        place = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(os.path.join(root, place)):
            errors.append(f"{path}:{line_of(text, match.start())}: no file {target}")
        elif anchor and place.endswith(".md"):
            other = open(os.path.join(root, place), encoding="utf-8").read()
            if anchor not in [slug(h) for h in re.findall(r"^#+ (.*)$", other, re.M)]:
                errors.append(f"{path}:{line_of(text, match.start())}: no heading {target}")


def check_names(root, path, text):
    """A page that is named anywhere exists."""
    for match in re.finditer(r"(?<![\w/.-])((?:docs|results)/[\w-]+\.md)\b", text):
        if not os.path.exists(os.path.join(root, match.group(1))):
            errors.append(f"{path}:{line_of(text, match.start())}: no page {match.group(1)}")


def check_size(path, text):
    lines = text.split("\n")
    if len(lines) - 1 > LINES_MAX:
        errors.append(f"{path}: {len(lines) - 1} lines, limit {LINES_MAX}")
    rows = 0
    for number, line in enumerate(lines, 1):
        rows = rows + 1 if line.startswith("|") else 0
        if rows == ROWS_MAX + 3:  # with the head and the rule
            errors.append(f"{path}:{number}: a table of more than {ROWS_MAX} rows")


def check(root):
    """The mistakes of a tree."""
    errors.clear()
    tidy.errors.clear()
    for path in files(root):
        if not path.endswith(TEXT) or path.startswith("tests/house/"):  # tests name pages that do not exist
            continue
        text = open(os.path.join(root, path), encoding="utf-8", errors="replace").read()
        check_names(root, path, text)
        if not path.endswith(".md"):
            continue
        check_links(root, path, outside_fences(text))
        if path not in GENERATED:
            if path != "CHANGELOG.md":  # it has old names
                tidy.check_document(root, path)
            if path.startswith("docs/"):
                check_size(path, text)
    return errors + tidy.errors


BAD = {
    "docs/long.md": "x\n" * 151,
    "docs/table.md": "| a |\n|---|\n" + "| 1 |\n" * 12,
    "docs/link.md": "[a](none.md) [b](long.md#none)\n```\n[c](fenced.md)\n```\n",
    "docs/words.md": "what is o" "wed\nS" "o\nmany `s" "o many` nowed\n",
    "docs/systems.md": "like" "wise\n" * 200,
    "src/name.c": "/* docs/" "gone.md */\n",
    "README.md": "it goes" " on\n" + "x\n" * 200,
}
EXPECT = ["README.md:1: \"goes" " on\"", "docs/link.md:1: no file none.md", "docs/link.md:1: no heading long.md#none",
          "docs/long.md: 151 lines", "docs/table.md:14: a table",
          "docs/words.md:1: \"o" "wed\"", "docs/words.md:2: \"S" "o many\"", "src/name.c:1: no page docs/" "gone.md"]
with tempfile.TemporaryDirectory() as folder:
    for name, content in BAD.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        open(os.path.join(folder, name), "w").write(content)
    found = check(folder)
    if len(found) != len(EXPECT) or any(not any(error.startswith(text) for error in found) for text in EXPECT):
        sys.exit("a bad tree gives\n" + "\n".join(found))

found = check(sys.argv[1])
if found:
    sys.exit("\n".join(found))
