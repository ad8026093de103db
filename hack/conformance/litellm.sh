#!/usr/bin/env bash
# Tests the judge of replies, or the agents, against LiteLLM's proxy. It creates a Python
# environment (once), starts the proxy on a free port with the models of the folder in the argument
# (judge or agent), and runs the folder's tests. VENV sets the folder of the Python environment;
# PYTHON and GO set the commands.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
cd "$here/$1"
venv="${VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/csenv/conformance-judge}"
requirements="$here/judge/requirements.txt"
work="$(mktemp -d)"
proxy=""
trap '[ -z "$proxy" ] || kill "$proxy" 2>/dev/null || true; rm -rf "$work"' EXIT

stamp="$venv/requirements.txt"
if ! cmp -s "$requirements" "$stamp"; then
  echo "==> installing LiteLLM's proxy into $venv (some minutes, once)"
  rm -rf "$venv"
  "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check -r "$requirements"
  cp "$requirements" "$stamp"
fi

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
if ! CONFORMANCE_LITELLM_URL="http://127.0.0.1:$port/v1" "${GO:-go}" test -tags conformance -count=1 -v . 2>&1 | tee "$work/test.log" | grep -v -E '^=== '; then
  tail -50 "$work/proxy.log"
  exit 1
fi
