#!/usr/bin/env bash
# Tests the judge of replies, or the agents, against LiteLLM's proxy. It starts the proxy of the
# Python environment VENV on a free port with the models of the folder in the argument (judge or
# agent), and runs the folder's tests.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/$1"
venv="$VENV"
work="$(mktemp -d)"
proxy=""
trap '[ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true; rm -rf "$work"' EXIT

port="$("$venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')"
export LITELLM_MASTER_KEY="sk-$(head -c 12 /dev/urandom | od -An -tx1 | tr -d ' \n')"
export LITELLM_TELEMETRY=False LITELLM_LOCAL_MODEL_COST_MAP=True
echo "==> starting $("$venv/bin/pip" list --disable-pip-version-check 2>/dev/null | awk '$1 == "litellm" {print "LiteLLM " $2}') on port $port"
"$venv/bin/litellm" --config litellm.yaml --host 127.0.0.1 --port "$port" >"$work/proxy.log" 2>&1 &
proxy=$!
for _ in $(seq 120); do
  curl -fs -o /dev/null "http://127.0.0.1:$port/health/liveliness" && break
  kill -0 "$proxy" 2>/dev/null || { tail -50 "$work/proxy.log"; echo "the proxy exited before it was ready"; exit 1; }
  sleep 1
done

echo "==> running the tests"
if ! CONFORMANCE_LITELLM_URL="http://127.0.0.1:$port/v1" go test -tags conformance -count=1 -v . 2>&1 | tee "$work/test.log" | grep -v -E '^=== '; then
  tail -50 "$work/proxy.log"
  exit 1
fi
