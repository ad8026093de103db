"""Runs whose episodes are exported. hack/conformance builds csenv."""

import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "python"))

# The tokens of every answer of the scripted model.
PROMPT_IDS, IDS, LOGPROBS = [1, 2, 3, 151644], [40, 41], [-0.25, -1.5]

RUN = """
apiVersion: csenv.dev/v1alpha1
kind: EvaluationRun
metadata: {{name: model}}
spec:
  environmentRef: {{name: support}}
  agent:
    type: OpenAI
    openAI:
      baseURL: {url}/v1
      model: m
      extraBody: {{logprobs: true, return_token_ids: true}}
  tasks: [{{name: ticket-classify, scenarios: {{ids: [B06, S03]}}, trials: 2}}]
---
apiVersion: csenv.dev/v1alpha1
kind: CustomerSupportEnv
metadata: {{name: support}}
"""


class Model(http.server.BaseHTTPRequestHandler):
    """Classifies every ticket at once, and returns token ids as vLLM does. Its first answer to an episode is no action."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": "Let me think."}
        if len(request["messages"]) > 2:
            arguments = json.dumps({"category": "billing", "priority": "high"})
            message["tool_calls"] = [{"id": "c1", "type": "function", "function": {"name": "classify", "arguments": arguments}}]
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        body["usage"] = {"prompt_tokens": len(PROMPT_IDS), "completion_tokens": len(IDS), "total_tokens": len(PROMPT_IDS) + len(IDS)}
        if request.get("return_token_ids"):
            body["prompt_token_ids"], choice["token_ids"] = PROMPT_IDS, IDS
        if request.get("logprobs"):
            choice["logprobs"] = {"content": [{"token": f"t{i}", "logprob": p, "bytes": None, "top_logprobs": []} for i, p in enumerate(LOGPROBS)]}
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def csenv():
    folder = os.environ.get("CONFORMANCE_PROGRAMS")
    if not folder:
        pytest.exit("no programs: start this with `make conformance`", returncode=2)

    def run(*args):
        done = subprocess.run([os.path.join(folder, "csenv"), *map(str, args)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def store(csenv, tmp_path_factory):
    """The store of three runs: tickets, generated cases, and a model that returns its tokens."""
    folder = tmp_path_factory.mktemp("store")
    csenv("eval", "ticket-resolve", "--agent", "heuristic", "--trials", "2", "--name", "tickets", "--results", folder)
    csenv("eval", "case-hard", "--agent", "heuristic", "--name", "cases", "--results", folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    manifest = folder / "run.yaml"
    manifest.write_text(RUN.format(url=f"http://127.0.0.1:{server.server_port}"))
    csenv("eval", "-f", manifest, "--results", folder)
    server.shutdown()
    manifest.unlink()
    return folder


@pytest.fixture(scope="session")
def export(csenv, store, tmp_path_factory):
    """Exports all runs in a format and returns the path."""

    def write(format, *flags):
        out = tmp_path_factory.mktemp(format) / "out"
        csenv("export", "tickets", "cases", "model", "--results", store, "--format", format, "-O", out, *flags)
        return out

    return write


@pytest.fixture(scope="session")
def rows(export):
    """The episodes as the format jsonl writes them, by run and number."""
    lines = [json.loads(line) for line in export("jsonl").read_text().splitlines()]
    return {(row["run"], row["episode"]): row for row in lines}
