"""Starts the official OpenEnv server of a module's `app`: PORT and WORKERS are the arguments."""

import sys

import uvicorn


def serve(module):
    uvicorn.run(
        f"{module}:app", host="127.0.0.1", port=int(sys.argv[1]), workers=int(sys.argv[2]),
        loop="uvloop", http="httptools", ws="websockets", log_level="warning", backlog=4096, timeout_worker_healthcheck=60,
    )
