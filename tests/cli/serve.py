#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`fast ui` and `fast train` together, as a program uses them: serve.py FAST.

A run is started through the server, followed to its end, found by its tag, scraped; another one is
stopped; one that runs on outlives the server, and a second server on the same store stops it."""
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

fast = os.path.abspath(sys.argv[1])
home = tempfile.mkdtemp(prefix="fast-serve-")
env = dict(os.environ, FAST_HOME=home, XDG_DATA_HOME=home, OMP_NUM_THREADS="1")
SMALL = {"model": "mlp:hidden=8", "data": "digits:train=256,test=64", "workers": 2, "name": "<b>"}


class Server:
    def __init__(self, *flags):
        self.process = subprocess.Popen([fast, "ui", "--store", home + "/runs.db", *flags], env=env, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.base, self.token = self.process.stdout.readline().strip().split("/?token=")

    def ask(self, path, body=None, method=None):
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            return urllib.request.urlopen(request, timeout=120).read().decode()
        except urllib.error.HTTPError as refused:
            return f"{refused.code} {refused.read().decode()}"

    def run(self, number):
        return json.loads(self.ask(f"/api/runs/{number}"))["run"]

    def wait_for(self, number, done):
        for _ in range(1200):
            run = self.run(number)
            if done(run):
                return run
            time.sleep(0.1)
        sys.exit(f"run {number} stays {run}")

    def end(self):
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, said
        assert "address" in said, said


def check_tls():
    """A host with a certificate answers by https alone, and its cookie is Secure."""
    pem = home + "/server.pem"
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", pem, "-out", pem, "-days", "2",
                           "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True)
    if made.returncode:
        return print("not tested: TLS, as openssl cannot make a certificate")
    secure = Server("--cert", pem, "--key", pem, "--port", "0")
    assert secure.base.startswith("https://127.0.0.1:"), secure.base
    trust = ssl.create_default_context(cafile=pem)
    page = urllib.request.Request(secure.base + "/api/login", json.dumps({"token": secure.token}).encode(),
                                  {"Content-Type": "application/json"})
    assert "; Secure" in urllib.request.urlopen(page, context=trust, timeout=120).headers["Set-Cookie"]
    try:
        urllib.request.urlopen(secure.base.replace("https", "http") + "/", timeout=120)
        sys.exit("http is answered too")
    except (urllib.error.URLError, OSError):
        pass
    secure.end()


try:
    check_tls()
    server = Server()
    number = json.loads(server.ask("/api/runs", {"options": dict(SMALL, steps=20), "tags": ["mine"]}))["id"]
    stream = server.ask(f"/api/runs/{number}/live")
    assert stream.rstrip().endswith('data: {"status":"done"}'), stream[-300:]
    assert "<b>" not in stream and "event: metrics" in stream
    answer = json.loads(server.ask("/api/runs?tag=mine"))
    assert answer["total"] == 1 and answer["runs"][0]["name"] == "<b>" and answer["runs"][0]["steps"] == 20, answer
    assert f'fast_run_steps_total{{run="{number}"}} 20' in server.ask("/metrics")
    metrics = json.loads(server.ask(f"/api/runs/{number}/metrics"))
    assert metrics["step"][-1] == 20 and len(metrics["seq"]) == len(metrics["loss"]), metrics

    refused = server.ask("/api/runs", {"options": dict(SMALL, model="lennet")})
    assert refused.startswith("400") and "lenet" in refused, refused

    endless = dict(SMALL, epochs=1000000)
    number = json.loads(server.ask("/api/runs", {"options": endless}))["id"]
    server.ask(f"/api/runs/{number}/stop", {})
    assert server.wait_for(number, lambda run: run["status"] != "running")["status"] == "canceled"

    number = json.loads(server.ask("/api/runs", {"options": endless}))["id"]
    server.end()
    server = Server()
    steps = server.run(number)["steps"] or 0
    run = server.wait_for(number, lambda run: (run["steps"] or 0) > steps)
    assert run["status"] == "running", run
    assert server.ask(f"/api/runs/{number}", method="DELETE").startswith("409")
    server.ask(f"/api/runs/{number}/stop", {})
    assert server.wait_for(number, lambda run: run["status"] != "running")["status"] == "canceled"
    server.ask(f"/api/runs/{number}", method="DELETE")
    assert server.ask(f"/api/runs/{number}").startswith("404")
    server.end()
finally:
    shutil.rmtree(home, ignore_errors=True)
