#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python_binding - declarations of the public headers for Python's ctypes.

    tools/python_binding.py [ROOT] > python/fast/_native.py

The C compiler ($CC, else cc) expands the headers; this script reads the declarations that come from them:
enums, structs, types of functions and functions. A test compares its output with the file in the tree, and
the layout of every struct with the compiler's (tests/python/binding.py).

How types are written: pointers to numbers are addresses (c_void_p), so that arrays of any library can be
passed by address and nothing is converted; texts are c_char_p; pointers to structs have their type.
"""
import os
import re
import subprocess
import sys

SCALARS = {"bool": "c_bool", "char": "c_char", "int": "c_int", "unsigned": "c_uint", "float": "c_float",
           "double": "c_double", "size_t": "c_size_t", "int8_t": "c_int8", "uint8_t": "c_uint8",
           "int16_t": "c_int16", "uint16_t": "c_uint16", "int32_t": "c_int32", "uint32_t": "c_uint32",
           "int64_t": "c_int64", "uint64_t": "c_uint64"}
TOKEN = re.compile(r"[A-Za-z_]\w*|\d\w*|<<|\.\.\.|\S")


def expanded(root):
    """Return the declarations of the public headers, macros expanded, attributes removed."""
    folder = os.path.join(root, "include", "fast")
    text = "".join(f'#include "fast/{name}"\n' for name in sorted(os.listdir(folder)) if name.endswith(".h"))
    command = [os.environ.get("CC", "cc"), "-E", "-x", "c", "-std=c17", "-I", os.path.join(root, "include"), "-"]
    lines, ours = [], False
    for line in subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.splitlines():
        mark = re.match(r'# \d+ "(.*?)"', line)
        if mark:
            ours = "/include/fast/" in mark.group(1).replace("\\", "/")
        elif ours and not line.startswith("#"):
            lines.append(re.sub(r"\b_Bool\b", "bool", line))
    return re.sub(r"__attribute__\s*\(\([a-z_]+(?:\(\"\w+\"\))?\)\)", "", "\n".join(lines))


def declarations(tokens):
    """Split tokens at semicolons outside of braces."""
    out, depth, one = [], 0, []
    for token in tokens:
        depth += (token in "{(") - (token in "})")
        if token == ";" and depth == 0:
            out.append(one)
            one = []
        else:
            one.append(token)
    return out


class Binding:
    def __init__(self):
        self.enums, self.enum_types, self.order = {}, [], []  # values; names of types; structs in their order
        self.fields, self.functions, self.callbacks = {}, {}, {}

    # Types: ("void",), ("scalar", c), ("struct", name), ("function", result, arguments), ("pointer", t), ("array", t, n)
    def base(self, words):
        words = [w for w in words if w not in ("const", "struct", "enum", "volatile", "extern")]
        if words == ["void"]:
            return ("void",)
        name = "unsigned" if words[0] == "unsigned" else words[-1]
        if name in SCALARS:
            return ("scalar", SCALARS[name])
        if name in self.enum_types:
            return ("scalar", "c_int")
        if name in self.callbacks:
            return ("callback", name)
        return ("struct", name) if name.startswith("fast_") else ("void",)  # FILE and others are addresses

    def declarator(self, tokens):
        """Read specifiers and one declarator: (name, type)."""
        end = 0
        while end < len(tokens) and (re.match(r"[A-Za-z_]", tokens[end]) and not (
                end and tokens[end - 1] not in ("const", "struct", "enum", "unsigned", "volatile", "extern"))):
            end += 1
        while end < len(tokens) and tokens[end] == "const":
            end += 1
        kind = self.base(tokens[:end])
        return self.suffix(tokens[end:], kind)

    def suffix(self, tokens, kind):
        while tokens and tokens[0] in ("*", "const"):
            if tokens[0] == "*":
                kind = ("pointer", kind)
            tokens = tokens[1:]
        if tokens and tokens[0] == "(" and len(tokens) > 1 and tokens[1] == "*":  # (*name)(...) or (*name)[n]
            close = self.close(tokens, 0)
            return self.suffix(tokens[1:close], self.tail(tokens[close + 1:], kind))
        name = ""
        if tokens and re.match(r"[A-Za-z_]", tokens[0]):
            name, tokens = tokens[0], tokens[1:]
        return name, self.tail(tokens, kind)

    def close(self, tokens, at):
        depth = 0
        for i in range(at, len(tokens)):
            depth += (tokens[i] in "([") - (tokens[i] in ")]")
            if depth == 0:
                return i
        raise ValueError(tokens)

    def tail(self, tokens, kind):
        if not tokens:
            return kind
        if tokens[0] == "[":
            close = self.close(tokens, 0)
            inner = " ".join(tokens[1:close])
            rest = self.tail(tokens[close + 1:], kind)
            return ("array", rest, eval(inner, {}, self.enums) if inner else 0)
        assert tokens[0] == "(", tokens
        return ("function", kind, self.arguments(tokens[1:self.close(tokens, 0)]))

    def arguments(self, tokens):
        out, depth, one = [], 0, []
        for token in tokens + [","]:
            depth += (token in "([") - (token in ")]")
            if token == "," and depth == 0:
                out.append(one)
                one = []
            else:
                one.append(token)
        if out == [["void"]]:
            return []
        return [self.declarator(one) for one in out]

    def enum(self, tokens):
        value, body = -1, tokens[tokens.index("{") + 1:tokens.index("}")]
        for item in " ".join(body).split(","):
            if not item.strip():
                continue
            name, _, text = item.partition("=")
            value = eval(text, {}, self.enums) if text else value + 1
            self.enums[name.strip()] = value

    def add(self, tokens):
        typedef, brace = tokens[0] == "typedef", "{" in tokens
        words = tokens[1:] if typedef else tokens
        if words[0] == "enum":
            if typedef:
                self.enum_types.append(tokens[-1])
            return self.enum(tokens)
        if words[0] == "struct" and (brace or len(words) == 3):
            name = words[1]
            if name not in self.fields:
                self.fields[name] = None
            if brace:
                body = words[words.index("{") + 1:len(words) - 1 - words[::-1].index("}")]
                self.fields[name] = [self.declarator(one) for one in declarations(body)]
                self.order.append(name)
            return None
        name, kind = self.declarator(words)
        if typedef:
            self.callbacks[name] = kind
        else:
            assert kind[0] == "function", tokens
            self.functions[name] = kind
        return None

    def ctype(self, kind, argument=False):
        if kind[0] == "void":
            return "None"
        if kind[0] == "scalar":
            return kind[1]
        if kind[0] in ("struct", "callback"):
            return kind[1]
        if kind[0] == "array":
            return "c_void_p" if argument else f"{self.ctype(kind[1])} * {kind[2]}"
        if kind[0] == "function":
            return "CFUNCTYPE(" + ", ".join([self.ctype(kind[1])] + [self.ctype(k, True) for _, k in kind[2]]) + ")"
        to = kind[1]
        if to[0] == "scalar" and to[1] == "c_char":
            return "c_char_p"
        if to[0] in ("void", "scalar", "array"):
            return "c_void_p"
        if to[0] in ("callback", "function"):
            return self.ctype(to)
        return f"POINTER({self.ctype(to)})"


HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""The public headers of FAST as ctypes: made by tools/python_binding.py, not written by hand.

`declare(library)` sets the types of all functions. include/fast/*.h is the reference.
"""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32,
                    c_int64, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p)
from typing import Any
'''


def wrap(start, items, end, indent):
    """Write a list, with line breaks between its items before column 118."""
    lines, line = [], start
    for i, item in enumerate(items):
        item += end if i + 1 == len(items) else ","
        if len(line) + len(item) > 117:
            lines.append(line.rstrip())
            line = " " * indent
        line += item if line.endswith(("[", "(", " ")) else " " + item
    return "\n".join(lines + [line]) if items else start + end


def write(binding, texts):
    out = [HEAD]
    out += [f"{name} = {value}" for name, value in binding.enums.items()]
    out.append("\nERRORS = {  # code: (name, text)")
    out += [f'    {code}: ("{name}", "{text}"),' for name, code, text in texts]
    out.append("}\n")
    for name, fields in binding.fields.items():
        out.append(f"\nclass {name}(Structure):\n    \"\"\"struct {name}"
                   f"{'; its fields are private' if fields is None else ''}.\"\"\"\n")
    out.append("")
    out += [f"{name}: Any = {binding.ctype(kind)}" for name, kind in binding.callbacks.items()]
    out.append("")
    for name in binding.order:
        out.append(wrap(f"{name}._fields_ = [", [f'("{field}", {binding.ctype(kind)})'
                                                 for field, kind in binding.fields[name]], "]", 4))
    out.append("\nFUNCTIONS = {  # name: (result, arguments)")
    for name, (_, result, arguments) in binding.functions.items():
        out.append(wrap(f'    "{name}": ({binding.ctype(result)}, [',
                        [binding.ctype(kind, True) for _, kind in arguments], "]),", 8))
    out.append('}\n\n\ndef declare(library):\n    """Set result and argument types of every function of the library."""\n'
               "    for name, (result, arguments) in FUNCTIONS.items():\n        function = getattr(library, name)\n"
               "        function.restype, function.argtypes = result, arguments\n    return library")
    return "\n".join(out)


def make(root):
    binding = Binding()
    for one in declarations(TOKEN.findall(expanded(root))):
        while one and (one[0] == "}" or one[:2] == ["extern", '"']):
            one = one[1:]
        if one:
            binding.add(one)
    with open(os.path.join(root, "include", "fast", "fast.h")) as file:
        texts = [(n, int(c), t) for n, c, t in re.findall(r"X\((\w+), (-\d+), \"(.*?)\"\)", file.read())]
    return binding, write(binding, texts)


if __name__ == "__main__":
    print(make(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.dirname(os.path.abspath(__file__))))[1])
