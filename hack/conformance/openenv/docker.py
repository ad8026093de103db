#!/usr/bin/env python3
"""A stand-in for docker, as far as OpenEnv's LocalDockerProvider uses it.

It has one image, the OCI archive image.tar in the folder $STANDIN_DOCKER, and starts what the image's
config says: its entrypoint, with its variables, as its user, with its files only, and in a network of
its own. Only published ports can be reached from outside.
"""

import argparse
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import threading

HOME = pathlib.Path(os.environ["STANDIN_DOCKER"])
NEW_NETWORK = 0x40000000  # CLONE_NEWNET


def unpack(archive, root):
    """Unpacks the layers of the image and returns its config."""

    def blob(digest):
        return archive.extractfile("blobs/" + digest.replace(":", "/"))

    [entry] = json.load(archive.extractfile("index.json"))["manifests"]
    manifest = json.load(blob(entry["digest"]))
    for layer in manifest["layers"]:
        with tarfile.open(fileobj=blob(layer["digest"])) as files:
            files.extractall(root, filter="tar")
    return json.load(blob(manifest["config"]["digest"]))["config"]


def run(options):
    folder = HOME / options.name
    with tarfile.open(HOME / "image.tar") as archive:
        config = unpack(archive, folder / "root")
    variables = dict(pair.split("=", 1) for pair in config.get("Env", []) + options.variables)
    command = config.get("Entrypoint", []) + (options.command or config.get("Cmd", []))
    (folder / "container.json").write_text(json.dumps({"command": command, "variables": variables, "user": config["User"], "port": options.port}))
    with open(folder / "log", "wb") as log:
        itself = [sys.executable, __file__, "contain", options.name]
        container = subprocess.Popen(itself, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    (folder / "pid").write_text(str(container.pid))
    print(options.name)


def contain(options):
    """Runs the program of a container, and forwards connections to it from the published port."""
    folder = HOME / options.name
    container = json.loads((folder / "container.json").read_text())
    outside, inside = map(int, container["port"].split(":"))
    user, group = map(int, container["user"].split(":"))
    published = socket.create_server(("127.0.0.1", outside))
    # The socket stays where it was made; later ones, and the program's, are in the new network.
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK) != 0:
        sys.exit("making a network: " + os.strerror(ctypes.get_errno()))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)

    def enter():
        os.chroot(folder / "root")
        os.chdir("/")
        os.setgroups([])
        os.setgid(group)
        os.setuid(user)

    program = subprocess.Popen(container["command"], env=container["variables"], preexec_fn=enter)
    signal.signal(signal.SIGTERM, lambda *_: program.terminate())

    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one of the ends is gone

    def forward():
        while True:
            client, _ = published.accept()
            try:
                server = socket.create_connection(("127.0.0.1", inside))
            except OSError:
                client.close()
                continue
            for pair in (client, server), (server, client):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=forward, daemon=True).start()
    sys.exit(program.wait())


def stop(options):
    pid = int((HOME / options.name / "pid").read_text())
    os.kill(pid, signal.SIGTERM)
    while pathlib.Path(f"/proc/{pid}").exists() and "State:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text():
        signal.sigtimedwait([], 0.05)


def main():
    parser = argparse.ArgumentParser(prog="docker")
    commands = parser.add_subparsers(required=True)
    commands.add_parser("version").set_defaults(do=lambda _: None)
    started = commands.add_parser("run")
    started.add_argument("-d", action="store_true", required=True)
    started.add_argument("--name", required=True)
    started.add_argument("-p", dest="port", required=True)
    started.add_argument("-e", dest="variables", action="append", default=[])
    started.add_argument("image")
    started.add_argument("command", nargs=argparse.REMAINDER)
    started.set_defaults(do=run)
    for name, do in {"contain": contain, "stop": stop, "rm": lambda o: shutil.rmtree(HOME / o.name)}.items():
        known = commands.add_parser(name)
        known.add_argument("name")
        known.set_defaults(do=do)
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
