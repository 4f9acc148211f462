#!/usr/bin/env python3
"""docs/matrix.md from the lines that matrix_test writes: tools/matrix.py FILE... > docs/matrix.md
Its part on codecs from those of codec_matrix_test: tools/matrix.py --codecs FILE PAGE > docs/matrix.md

A line is a cell: strategy, topology, update rule, transport, outcome, reason, with tabs between. Several files may hold
the same cell, of ranks: the worst outcome counts. Rows and columns of equal cells are one."""
import sys

WORST = {"ran": 0, "refused": 1, "failed": 2}
MARK = {"ran": "●", "failed": "✗"}


def read(paths):
    cells = {}
    for path in paths:
        for line in open(path):
            *where, outcome, reason = line.rstrip("\n").split("\t")
            where = tuple(where)
            if where not in cells or WORST[outcome] > WORST[cells[where][0]]:
                cells[where] = (outcome, reason)
    return cells


def in_order(cells, dimension):
    return list(dict.fromkeys(where[dimension] for where in cells))


def code(names):
    return ", ".join(f"`{name}`" for name in names)


def general(reason, where):
    """A reason without what is the cell's own, so that equal ones are one footnote."""
    reason = reason.removeprefix("worker 0: ").removeprefix("worker 1: ").removeprefix("server 0: ")
    return reason.replace(f"topology={where[1]}", "topology")


def group(keys, content):
    """Keys of equal content, in order."""
    groups = {}
    for key in keys:
        groups.setdefault(content(key), []).append(key)
    return list(groups.items())


class Notes:
    def __init__(self):
        self.numbers = {}

    def mark(self, reason):
        return f"[{self.numbers.setdefault(reason, len(self.numbers) + 1)}]"


def table(cells, members, topologies, rules, transports, notes):
    def text(member, topology, rule):
        marks = []
        for transport in transports:
            where = (member, topology, rule, transport)
            outcome, reason = cells[where]
            marks.append(MARK.get(outcome) or notes.mark(general(reason, where)))
        return marks[0] if len(set(marks)) == 1 else " ".join(f"{t} {m}" for t, m in zip(transports, marks))

    rows = [(m, t) for m in members for t in topologies]
    columns = group(rules, lambda rule: tuple(text(m, t, rule) for m, t in rows))
    by_row = group(rows, lambda row: tuple(text(*row, names[0]) for _, names in columns))
    lines = ["| member | topology | " + " | ".join(code(names) for _, names in columns) + " |",
             "|---|---|" + "---|" * len(columns)]
    for marks, places in by_row:
        # Of the members that share these marks, those with the same topologies stand together.
        for names, same in group(dict.fromkeys(m for m, _ in places),
                                 lambda m: tuple(t for n, t in places if n == m)):
            which = "all others" if len(names) > 1 and set(names) == set(topologies[1:]) else \
                "all" if list(names) == topologies else code(names)
            who = "all" if len(members) > 1 and same == members else code(same)
            lines.append(f"| {who} | {which} | " + " | ".join(marks) + " |")
    return lines


def codecs(path, page):
    """The page with a new part on codecs: a table a direction, strategies by codecs."""
    cells = read([path])
    strategies, names, ways, transports = (in_order(cells, i) for i in range(4))
    count = {word: sum(outcome == word for outcome, _ in cells.values()) for word in WORST}
    notes = Notes()

    def general_codec(reason, codec):
        for text in sorted({codec, reason_spec(reason, codec)}, key=len, reverse=True):
            reason = reason.replace(f"={text}", "").replace(f"codec {text}", "the codec")
        return reason

    def reason_spec(reason, codec):
        """The codec as it was given: with the options of a small model."""
        at = reason.find(codec + ":")
        return reason[at:].split(";")[0].split(" ")[0].rstrip(",") if at >= 0 else codec

    def text(strategy, codec, way):
        marks = []
        for transport in transports:
            outcome, reason = cells[strategy, codec, way, transport]
            reason = general_codec(reason, codec).replace(f"strategy {strategy}", "the strategy")
            marks.append(MARK.get(outcome) or notes.mark(reason))
        return marks[0] if len(set(marks)) == 1 else " ".join(f"{t} {m}" for t, m in zip(transports, marks))

    out = ["## Codecs", "",
           f"Every codec, and every stage alone, with every strategy of standard options, on what workers send (up), on what comes "
           f"back (down) and on both ways; plain SGD, four workers, on {code(transports)}.",
           f"Of {len(cells):,} cells {count['ran']:,} ran, {count['refused']:,} are refused with a reason"
           f"{', ' + str(count['failed']) + ' FAILED' if count['failed'] else ''}. {code(names)}."]
    for way in ways:
        columns = group(names, lambda name: tuple(text(s, name, way) for s in strategies))
        rows = group(strategies, lambda s: tuple(text(s, same[0], way) for _, same in columns))
        out += ["", f"### {way}", "",
                "| strategy | " + " | ".join(code(same) for _, same in columns) + " |",
                "|---|" + "---|" * len(columns)]
        out += [f"| {code(same)} | " + " | ".join(marks) + " |" for marks, same in rows]
    out += ["", "Reasons, with codecs:", ""]
    out += [f"{number}. {reason}" for reason, number in notes.numbers.items()]
    with open(page, encoding="utf-8") as old:
        print(old.read().split("\n## Codecs\n")[0].rstrip("\n") + "\n\n" + "\n".join(out))


def main():
    if sys.argv[1] == "--codecs":
        codecs(*sys.argv[2:])
        return
    cells = read(sys.argv[1:])
    strategies, topologies, rules, transports = (in_order(cells, i) for i in range(4))
    transports.sort(key=["threads", "sim", "mpi"].index)
    count = {word: sum(outcome == word for outcome, _ in cells.values()) for word in WORST}
    if len(cells) != len(strategies) * len(topologies) * len(rules) * len(transports):
        sys.exit("cells are missing")
    notes = Notes()
    out = ["# What goes with what", "",
           "```", "tools/soak matrix    # runs every cell, and writes this page", "```", "",
           "Every strategy with every topology, update rule and transport, on four workers (mpi: two ranks). "
           "Each cell is a run of milliseconds:",
           "the loss of its model is finite and falls; in `sim` two runs give the same bits.",
           "Members of a strategy are it alone and what the presets of the [named systems](systems.md) choose; "
           "topology `auto` is the strategy's own.",
           "Strategies that need shared memory run in `sim` on a cluster of one machine (`laptop`).",
           f"Of {len(cells):,} cells {count['ran']:,} ran, {count['refused']:,} are refused with a reason"
           f"{', ' + str(count['failed']) + ' FAILED' if count['failed'] else ''}.", "",
           f"- topologies: {code(topologies)}", f"- update rules: {code(rules)}", f"- transports: {code(transports)}", "",
           "● ran and learned on all transports; a number: refused, for the reason below."]
    families = group(strategies, lambda s: s.split(":")[0])
    for family, members in families:
        out += ["", f"## {family}", "", f"Members: {code(members)}", ""] + table(cells, members, topologies, rules, transports, notes)
    out += ["", "## Reasons", ""]
    out += [f"{number}. {reason}" for reason, number in notes.numbers.items()]
    print("\n".join(out))


main()
