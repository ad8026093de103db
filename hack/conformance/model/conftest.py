"""A small model behind llama.cpp's server, and csenv's command line. hack/conformance builds the command line."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="session")
def endpoint():
    """The model's base URL."""
    server = subprocess.Popen([sys.executable, HERE / "serve.py"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    url = server.stdout.readline().strip()
    assert url, f"the server ended with {server.wait(30)}"
    yield url
    server.terminate()
    server.wait(30)


@pytest.fixture(scope="session")
def csenv():
    """Runs a command of the command line, and returns its exit code, its standard output as JSON and its standard error."""
    folder = os.environ.get("CONFORMANCE_PROGRAMS")
    if not folder:
        pytest.exit("no programs: start this with `make conformance`", returncode=2)

    def run(*args):
        done = subprocess.run([os.path.join(folder, "csenv"), *map(str, args), "-o", "json"], capture_output=True, text=True, timeout=500)
        return done.returncode, json.loads(done.stdout or "null"), done.stderr

    return run


@pytest.fixture
def say(capsys):
    """Prints a figure although the test passes."""

    def say(text):
        with capsys.disabled():
            print(f"\n    {text}", flush=True)

    return say
