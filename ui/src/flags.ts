/* SPDX-License-Identifier: Apache-2.0 */
/* Options as flags of a command line, both ways. Pure functions. */

/* The words of a line as a POSIX shell would split them: quotes hold words together. */
export function splitWords(line: string): string[] {
    const words: string[] = [];
    let word = "";
    let begun = false;
    let quote = "";
    for (const letter of line) {
        if (quote) {
            if (letter === quote)
                quote = "";
            else
                word += letter;
        } else if (letter === "'" || letter === '"') {
            quote = letter;
            begun = true;
        } else if (/\s/.test(letter)) {
            if (begun || word)
                words.push(word);
            word = "";
            begun = false;
        } else
            word += letter;
    }
    if (begun || word)
        words.push(word);
    return words;
}

/* --lr 0.1 --codec=topk:ratio=0.01 as { lr: "0.1", codec: "topk:ratio=0.01" }. */
export function parseFlags(line: string): Record<string, string> {
    const options: Record<string, string> = {};
    const words = splitWords(line);
    for (let i = 0; i < words.length; i++) {
        const match = /^--([a-z][a-z0-9-]*)(?:=(.*))?$/s.exec(words[i]!);
        if (!match)
            throw new Error(`"${words[i]}" is not a flag; write them as --lr 0.1 --codec fp16`);
        const value = match[2] ?? words[++i];
        if (value === undefined)
            throw new Error(`--${match[1]} needs a value`);
        options[match[1]!.replaceAll("-", "_")] = value;
    }
    return options;
}

/* The flags of a system, which its table has as strategy=ps:slack=3 optimizer=sgd. */
export function systemFlags(flags: string): string {
    return splitWords(flags).map((word) => word.startsWith("--") ? word
        : word.replace(/^([a-z_]+)=/, (_, name: string) => `--${name.replaceAll("_", "-")} `)).join(" ");
}
