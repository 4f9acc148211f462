"""Pages have links that lead somewhere, at most 150 lines, tables of less than 12 rows, and words of the field."""
import os
import re
import sys

root = sys.argv[1]
GENERATED = {"docs/options.md", "docs/systems.md"}  # the program prints them
LINES_MAX, ROWS_MAX = 150, 11
SKIP = {".git", "build", "node_modules", "__pycache__", ".cache", "dist"}
TEXT = (".md", ".c", ".h", ".py", ".txt", ".cmake", ".mjs", ".tsx", ".ts", ".in", ".csv")
# Words of a private dialect, as whole words: none has a use in which a reader would expect it.
DIALECT = ["way back", "way forward", "owed", "owes", "likewise", "at hand", "foretells?", "foretold", "by chance",
           "so many", "lessons?", "seats?", "glances?", "pupils?", "is had", "goes on"]
DIALECT_RE = re.compile(r"\b(" + "|".join(word.replace(" ", r"\s+") for word in DIALECT) + r")\b", re.I)
errors = []


def files():
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIP)
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower()).replace(" ", "-")


def outside_fences(text):
    """The text with fenced blocks blanked out, line structure kept."""
    return re.sub(r"^```.*?^```$", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.M | re.S)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check_links(path, text):
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


def check_names(path, text):
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


def check_words(path, text):
    for match in DIALECT_RE.finditer(text):
        errors.append(f"{path}:{line_of(text, match.start())}: \"{match.group(0)}\": write the word of the field")


for path in files():
    if not path.endswith(TEXT):
        continue
    text = open(os.path.join(root, path), encoding="utf-8", errors="replace").read()
    check_names(path, text)
    if not path.endswith(".md"):
        continue
    check_links(path, outside_fences(text))
    if path not in GENERATED:
        check_words(path, text)
        if path.startswith("docs/"):
            check_size(path, text)

assert DIALECT_RE.search("what is owed") and DIALECT_RE.search("So\nmany") and not DIALECT_RE.search("fast_lesson nowed")
if errors:
    sys.exit("\n".join(errors))
