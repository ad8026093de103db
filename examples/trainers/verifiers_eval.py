"""verifiers: vf-eval with the package's task set and environment, against an endpoint with a scripted model."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from common import URL, endpoint, report

with tempfile.TemporaryDirectory() as folder:
    evaluate = [
        str(pathlib.Path(sys.executable).with_name("vf-eval")), "customer-support-verifiers",
        "--env.taskset.base-url", URL, "--env.taskset.seeds", "4", "--env.taskset.reset", '{"task": "ticket-resolve"}',
        "--model", "scripted", "--client.base-url", endpoint(), "--client.api-key-var", "NO_KEY",
        "--env.player.harness.id", "null", "--env.player.runtime.type", "subprocess", "--no-push", "--output-dir", folder,
    ]  # fmt: skip
    done = subprocess.run(evaluate, env=os.environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for file in pathlib.Path(folder).rglob("traces.jsonl") for line in file.open()]
traces = [trace for line in lines for trace in line["traces"]]
assert len(traces) == 4 and all(trace["ok"] for trace in traces), traces
print(json.dumps(traces[0])[-1500:])
assert all(trace["rewards"]["customer_support"]["score"] == trace["metrics"]["score"] for trace in traces), traces
report("verifiers", len(traces))
