#!/usr/bin/env python3
"""store - the cost of the run store. Usage: bench/store.py FAST [STEPS]

Two questions of results/store.md:

1. What does the writer take from a training at ten rows a second? Expected: less than 1%. A run of
   lenet with one worker has two threads, the one that trains and the one that writes; the kernel
   counts the time of each (/proc/PID/task/TID/schedstat), which other programs do not disturb.
2. How long does `fast runs` take with 10,000 runs of 100 metrics each? Expected: less than 200 ms,
   as a list in the order of an index reads only the rows that it shows.
"""
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time

RUNS, METRICS, REPEATS = 10000, 100, 7


def thread_ns(pid):
    """Nanoseconds that each thread of a process has run, by its number."""
    times = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            times[int(tid)] = int(open(f"/proc/{pid}/task/{tid}/schedstat").read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass
    return times


def writer_share(fast, store, steps):
    """The writer's part of all that the process ran while it trained, and rows a second."""
    command = [fast, "train", "--model", "lenet", "--steps", str(steps), "--quiet", "--store", store,
               "--evaluate", "end"]
    process = subprocess.Popen(command, env=dict(os.environ, OMP_NUM_THREADS="1"))
    newest = {}
    while process.poll() is None:
        newest.update(thread_ns(process.pid))
        time.sleep(0.05)
    database = sqlite3.connect(store)
    rows, seconds = database.execute(
        "SELECT count(*), max(wall_s) FROM metrics WHERE run=(SELECT max(id) FROM runs)").fetchone()
    main = newest.pop(process.pid)
    return max(newest.values()) / main, rows / seconds


def fill(store):
    """The last run of a store, RUNS times, with METRICS rows each."""
    database = sqlite3.connect(store)
    columns = [row[1] for row in database.execute("PRAGMA table_info(runs)") if row[1] != "id"]
    names = ",".join(columns)
    database.execute(f"INSERT INTO runs ({names}) SELECT {names} FROM runs, "
                     f"(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{RUNS})"
                     " SELECT i FROM n) WHERE id=(SELECT max(id) FROM runs)")
    database.execute("UPDATE runs SET test_accuracy=abs(random()%10000)/10000.0, created=created+id")
    columns = [row[1] for row in database.execute("PRAGMA table_info(metrics)")][2:]
    row = database.execute(f"SELECT {','.join(columns)} FROM metrics LIMIT 1").fetchone()
    database.execute("DELETE FROM metrics")
    marks = ",".join("?" * (len(row) + 2))
    for (run,) in database.execute("SELECT id FROM runs").fetchall():
        database.executemany(f"INSERT INTO metrics VALUES ({marks})",
                             [(run, seq) + row for seq in range(METRICS)])
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return database.execute("SELECT count(*) FROM runs").fetchone()[0]


def median_ms(command):
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append(1000 * (time.perf_counter() - start))
    return sorted(times)[len(times) // 2]


def main():
    fast = os.path.abspath(sys.argv[1])
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 1500
    with tempfile.TemporaryDirectory() as folder:
        store = folder + "/runs.db"
        shares = [writer_share(fast, store, steps) for _ in range(3)]
        share, rate = sorted(shares)[1]
        print(json.dumps({"what": "writer", "share": share, "rows_per_s": rate}))
        print(json.dumps({"what": "store", "runs": fill(store), "bytes": os.path.getsize(store)}))
        for words in ([], ["--sort", "-test_accuracy"], ["--where", "status=done,workers>=1"],
                      ["--search", "lenet"], ["--sort", "-loss"], ["show", "5000"],
                      ["export", "5000"]):
            command = [fast, "runs", *words, "--store", store]
            print(json.dumps({"what": " ".join(["fast runs", *words]), "ms": median_ms(command)}))


main()
