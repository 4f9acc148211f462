#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""results/matrix-strategies.csv from the lines that matrix_test writes: tools/matrix.py FILE...
results/matrix-codecs.csv from those of codec_matrix_test: tools/matrix.py --codecs FILE

A line is a cell: strategy, topology, update rule, transport, outcome, reason, with tabs between. Several files may hold
the same cell, of ranks: the worst outcome counts. Equal cells are one row."""
import sys

import results

WORST = {"ran": 0, "refused": 1, "failed": 2}


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
    """A reason without the names of its cell, so that cells with the same reason are equal."""
    reason = reason.removeprefix("worker 0: ").removeprefix("worker 1: ").removeprefix("server 0: ")
    return reason.replace(f"topology={where[1]}", "topology")


def group(keys, content):
    """Keys of equal content, in order."""
    groups = {}
    for key in keys:
        groups.setdefault(content(key), []).append(key)
    return list(groups.items())


def words(names):
    return " ".join(names)


def outcome_text(marks, transports):
    """One outcome where all transports agree, else one for each."""
    return marks[0] if len(set(marks)) == 1 else " ".join(f"{t} {m}" for t, m in zip(transports, marks))


def mark(outcome, reason):
    return outcome if outcome == "ran" else f"{outcome}: {reason}"


def counted(cells):
    count = {word: sum(outcome == word for outcome, _ in cells.values()) for word in WORST}
    return (f"Of {len(cells):,} cells {count['ran']:,} ran, {count['refused']:,} are refused with a reason"
            f"{', ' + str(count['failed']) + ' FAILED' if count['failed'] else ''}.")


def family_rows(cells, family, members, topologies, rules, transports):
    """Rows of one strategy: members and topologies with equal outcomes for a set of update rules stand together."""
    def text(member, topology, rule):
        places = [(member, topology, rule, transport) for transport in transports]
        return outcome_text([mark(cells[place][0], general(cells[place][1], place)) for place in places], transports)

    pairs = [(m, t) for m in members for t in topologies]
    out = []
    for marks, places in group(pairs, lambda pair: tuple(text(*pair, rule) for rule in rules)):
        # Of the members that share these outcomes, those with the same topologies stand together.
        for names, same in group(dict.fromkeys(m for m, _ in places),
                                 lambda m: tuple(t for n, t in places if n == m)):
            which = "all others" if len(names) > 1 and set(names) == set(topologies[1:]) else \
                "all" if list(names) == topologies else words(names)
            for outcome, equal in group(rules, lambda rule: marks[rules.index(rule)]):
                out.append([family, words(same), which, words(equal), outcome])
    return out


def codecs(path):
    """The table of codecs: direction, strategies, codecs."""
    cells = read([path])
    strategies, names, ways, transports = (in_order(cells, i) for i in range(4))

    def reason_spec(reason, codec):
        """The codec as it was given: with the options of a small model."""
        at = reason.find(codec + ":")
        return reason[at:].split(";")[0].split(" ")[0].rstrip(",") if at >= 0 else codec

    def general_codec(reason, codec):
        for text in sorted({codec, reason_spec(reason, codec)}, key=len, reverse=True):
            reason = reason.replace(f"={text}", "").replace(f"codec {text}", "the codec")
        return reason

    def text(strategy, codec, way):
        marks = []
        for transport in transports:
            outcome, reason = cells[strategy, codec, way, transport]
            reason = general_codec(reason, codec).replace(f"strategy {strategy}", "the strategy")
            marks.append(mark(outcome, reason))
        return outcome_text(marks, transports)

    rows = []
    for way in ways:
        for outcomes, same in group(strategies, lambda s: tuple(text(s, name, way) for name in names)):
            for outcome, equal in group(names, lambda name: outcomes[names.index(name)]):
                rows.append([way, words(same), words(equal), outcome])
    head = {"date": results.today(), "note": [counted(cells)]}
    results.publish([("matrix-codecs", head, ["direction", "strategies", "codecs", "outcome"], rows)])


def main():
    if sys.argv[1] == "--codecs":
        codecs(sys.argv[2])
        return
    cells = read(sys.argv[1:])
    strategies, topologies, rules, transports = (in_order(cells, i) for i in range(4))
    transports.sort(key=["threads", "sim", "mpi"].index)
    if len(cells) != len(strategies) * len(topologies) * len(rules) * len(transports):
        sys.exit("cells are missing")
    rows = []
    for family, members in group(strategies, lambda s: s.split(":")[0]):
        rows += family_rows(cells, family, members, topologies, rules, transports)
    head = {"date": results.today(),
            "note": [counted(cells), f"Topologies: {code(topologies)}.", f"Update rules: {code(rules)}.",
                     f"Transports: {code(transports)}."]}
    results.publish([("matrix-strategies", head, ["strategy", "members", "topologies", "update rules", "outcome"], rows)])


main()
