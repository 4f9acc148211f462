# SPDX-License-Identifier: Apache-2.0
"""Goal: the binding is that of the headers. Usage: binding.py ROOT COMPILER

Method: tools/python_binding.py writes it again, and the text is equal; the compiler's sizes and offsets of
every struct and its values of every constant are those of ctypes.
"""
import ctypes
import importlib.util
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
root, os.environ["CC"] = sys.argv[1], sys.argv[2]


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def layout(binding):
    """Return the compiler's numbers, in the order in which the loop below expects them."""
    lines = [f'printf("%lld\\n", (long long){name});' for name in binding.enums]
    for name in binding.order:
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        lines += [f'printf("%zu\\n", offsetof({name}, {field}));' for field, _ in binding.fields[name]]
    headers = sorted(n for n in os.listdir(os.path.join(root, "include", "fast")) if n.endswith(".h"))
    text = "#include <stdio.h>\n" + "".join(f'#include "fast/{n}"\n' for n in headers)
    text += "int main(void)\n{\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layout")
        subprocess.run([os.environ["CC"], "-x", "c", "-", "-I", os.path.join(root, "include"), "-o", path],
                       input=text, text=True, check=True)
        return [int(v) for v in subprocess.run([path], capture_output=True, text=True, check=True).stdout.split()]


binding, text = module("python_binding", os.path.join(root, "tools", "python_binding.py")).make(root)
path = os.path.join(root, "python", "fast", "_native.py")
with open(path) as file:
    if file.read().rstrip() != text.rstrip():
        sys.exit("python/fast/_native.py is not that of the headers: tools/python_binding.py > python/fast/_native.py")
native, numbers = module("_native", path), iter(layout(binding))
for name in binding.enums:
    assert getattr(native, name) == next(numbers), name
for name in binding.order:
    struct = getattr(native, name)
    assert ctypes.sizeof(struct) == next(numbers), name
    for field, _ in binding.fields[name]:
        assert getattr(struct, field).offset == next(numbers), (name, field)
assert next(numbers, None) is None and len(binding.functions) > 200 and len(binding.order) > 50
print(len(binding.functions), "functions,", len(binding.order), "structs")
