#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fast train` on a terminal: one line that is redrawn, fits the window and obeys NO_COLOR; Ctrl-C.

usage: terminal.py FAST

The program runs on a pseudo-terminal of a known width; every line that it draws is measured.
"""
import fcntl, os, pty, re, select, struct, subprocess, sys, tempfile, termios, time

JOB = "train --engine ref --model mlp:hidden=32 --data digits:train=960,test=16".split()

def run(fast, columns, arguments, interrupt=False, **env):
    """Exit code, everything that came back, seconds."""
    with tempfile.TemporaryDirectory() as home:
        pid, fd = pty.fork()
        if pid == 0:
            os.environ.pop("NO_COLOR", None)
            os.environ.update(env, FAST_HOME=home, XDG_DATA_HOME=home, OMP_NUM_THREADS="1")
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
            os.execv(fast, ["fast"] + arguments)
        start, out, sent = time.time(), b"", False
        while time.time() - start < 100:
            if select.select([fd], [], [], 0.05)[0]:
                try:
                    piece = os.read(fd, 65536)
                except OSError:
                    break
                if not piece:
                    break
                out += piece
            if interrupt and not sent and out.count(b"\r") > 6:
                os.write(fd, b"\x03")
                sent = True
        seconds = time.time() - start
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return code, out.decode(), seconds

def drawn(text):
    """The redrawn lines, without colours."""
    plain = re.sub(r"\033\[[0-9]*m", "", text)
    return [line for line in re.findall(r"\r([^\r\n\033]+)\033\[K", plain) if line.strip()]

def training(lines, columns):
    """Those of training; one that tells that data is read may come before, on a slow machine, and
    one that a test runs behind."""
    for line in lines:
        check(f"{columns} columns, but {len(line)} drawn: {line}", len(line) < columns)
    return [line for line in lines if not line.startswith("reading data"[:columns - 8]) and "testing" not in line]

def check(what, good):
    if not good:
        sys.exit(f"terminal.py: {what}")

def main():
    fast = os.path.abspath(sys.argv[1])
    # As many steps as take a second or two here: sanitizers are 50 times slower.
    start = time.time()
    done = subprocess.run([fast] + JOB + ["--steps", "40"], capture_output=True, text=True)
    check("control characters off a terminal", not re.search(r"[\r\033]", done.stderr + done.stdout))
    count = min(2000, max(60, int(40 * 1.5 / (time.time() - start))))
    steps = ["--steps", str(count), "--evaluate", "end"]
    for columns in (100, 60, 25):
        code, text, seconds = run(fast, columns, JOB + steps, TERM="xterm")
        lines = training(drawn(text), columns)
        while not lines and count < 10**6:  # it was measured while the machine was busier
            count *= 4
            steps = ["--steps", str(count), "--evaluate", "end"]
            code, text, seconds = run(fast, columns, JOB + steps, TERM="xterm")
            lines = training(drawn(text), columns)
        check(f"exit code {code}:\n{text}", code == 0)
        check("nothing was drawn", lines)
        check(f"{len(lines)} redraws in {seconds:.2f} s", len(lines) <= 10 * seconds + 2)
        for line in lines:
            check(f"not a progress line: {line}", re.match(rf"step \d+/{count}", line))
        check(f"no word of the test:\n{text}", columns < 100 or "  testing" in text)
        # In the narrow windows it depends on the digits of the step that was drawn last.
        check("a bar where it fits", columns < 100 or "[" in lines[-1])
        check("colours on a terminal", "\033[" in text)
    for env in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        code, text, _ = run(fast, 100, JOB + steps, **env)
        check(f"no colours with {env}", code == 0 and not re.search(r"\033\[[0-9;]*m", text))
    code, text, _ = run(fast, 100, JOB + ["--steps", "100000000"], interrupt=True, TERM="xterm")
    check(f"exit code {code} after Ctrl-C:\n{text}", code == 75)
    check(f"how to continue:\n{text}", "continue with: fast train" in text)

main()
