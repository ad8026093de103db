"""An S3 server on a temporary folder, an agent that can be paused, and csenv's programs. hack/conformance builds the programs."""

import base64
import contextlib
import hmac
import http.server
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
import uuid

import boto3
import botocore.config
import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

REGION = "us-east-1"
BUCKET = "evals"


def program(name):
    folder = os.environ.get("CONFORMANCE_PROGRAMS")
    if not folder:
        pytest.exit("no programs: start this with `make conformance`", returncode=2)
    return os.path.join(folder, name)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.05)
    return value


def kill(process):
    if process.poll() is None:
        process.kill()
    process.wait(30)


class Gateway:
    """versitygw with test keys, on a port that stays the same after a restart."""

    def __init__(self, folder, room=None):
        self.folder, self.room, self.port, self.process = folder, room, free_port(), None
        self.key, self.secret = "player", secrets.token_hex(20)
        self.metadata, self.logs = folder.with_name("metadata-of-" + folder.name), folder.with_suffix(".log")
        folder.mkdir()
        self.metadata.mkdir()

    def start(self, *flags):
        command = [program("versitygw"), "--port", f"127.0.0.1:{self.port}", "--health", "/health", *flags, "posix", "--sidecar", str(self.metadata), str(self.folder)]
        if self.room:
            # The disk is small only in the server's mount namespace. Ordinary users may create one
            # if the kernel permits it.
            command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o "size=$0" tmpfs "$1" && shift && exec "$@"', self.room, str(self.folder), *command]
        environment = os.environ | {"ROOT_ACCESS_KEY": self.key, "ROOT_SECRET_KEY": self.secret}
        with open(self.logs, "ab") as logs:
            self.process = subprocess.Popen(command, env=environment, stdout=logs, stderr=logs)
        wait_until(self.answers, "the S3 server serves")

    def answers(self):
        assert self.process.poll() is None, self.logs.read_text()
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).status == 200

    def stop(self):
        if self.process:
            kill(self.process)

    @property
    def s3(self):
        """AWS's own client."""
        return boto3.client(
            "s3", endpoint_url=f"http://127.0.0.1:{self.port}", region_name=REGION, aws_access_key_id=self.key, aws_secret_access_key=self.secret,
            config=botocore.config.Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, proxies={}),
        )

    @property
    def environment(self):
        return os.environ | {"AWS_ACCESS_KEY_ID": self.key, "AWS_SECRET_ACCESS_KEY": self.secret, "AWS_EC2_METADATA_DISABLED": "true"}

    def url(self, prefix, bucket=BUCKET, region=REGION):
        return f"s3://{bucket}/{prefix}?endpoint=http://127.0.0.1:{self.port}&use_path_style=true&region={region}"

    def keys(self, prefix):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix + "/")
        return [found["Key"] for page in pages for found in page.get("Contents", [])]

    def read(self, key):
        return self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    def lines(self, prefix):
        """Returns the stored records below a prefix, as text."""
        return [line for key in self.keys(prefix) if key.endswith(".jsonl") for line in self.read(key).decode().splitlines()]

    def records(self, prefix):
        return [json.loads(line) for line in self.lines(prefix)]

    def manifest(self, prefix):
        (key,) = [key for key in self.keys(prefix) if key.endswith("/manifest.json")]
        return json.loads(self.read(key))

    def stored(self, prefix):
        """Returns the episode index of every stored record."""
        return sorted(record["index"] for record in self.records(prefix))

    def await_stored(self, prefix, episodes):
        wait_until(lambda: len(self.stored(prefix)) >= episodes, f"{episodes} episodes are stored")

    def command(self, *args):
        return subprocess.run([program("csenv"), *args], env=self.environment, capture_output=True, text=True, timeout=120)

    def csenv(self, *args):
        """Runs a command that must succeed, and returns what it printed."""
        done = self.command(*args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def break_down(self, state):
        """Makes the server fail: it exits, hangs, or refuses writes."""
        if state == "hanging":
            self.process.send_signal(signal.SIGSTOP)
            return
        self.stop()
        if state == "read-only":
            self.start("--readonly")


@pytest.fixture
def gateways(tmp_path):
    """Starts S3 servers that stop at the end of the test."""
    made = []

    def make(**options):
        gateway = Gateway(tmp_path / f"gateway-{len(made)}", **options)
        made.append(gateway)
        gateway.start()
        gateway.s3.create_bucket(Bucket=BUCKET)
        return gateway

    yield make
    for gateway in made:
        gateway.stop()


@pytest.fixture
def gateway(gateways):
    return gateways()


class Agent:
    """An HTTP agent whose answers depend only on the ticket's text. It plays a permitted number of episodes and holds the requests of all others."""

    def __init__(self, episodes):
        self.asked, self.left, self.changed = [], episodes, threading.Condition()
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                agent.take(asked["episode"])
                guess = len(asked["observation"]["description"])
                action = {"action_type": "classify", "category": ["billing", "technical", "shipping", "general"][guess % 4], "priority": ["low", "medium", "high"][guess % 3]}
                answer = json.dumps({"action": action}).encode()
                with contextlib.suppress(OSError):  # the client may have been killed
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @staticmethod
    def id_of(record, credential=""):
        """Derives the id by which an agent knows the episode of a record: it is keyed by the run's credential, if there is one."""
        key = hmac.new(credential.encode(), b"csenv ids", "sha256").hexdigest() if credential else ""
        return base64.b32encode(hmac.new(key.encode(), b"csenv agent\n%d" % record["seed"], "sha256").digest()[:15]).decode()

    def take(self, episode):
        with self.changed:
            self.asked.append(episode)
            self.changed.wait_for(lambda: self.left > 0)
            self.left -= 1

    def let(self, episodes):
        with self.changed:
            self.left = episodes
            self.changed.notify_all()

    def await_held(self, episodes):
        """Waits until that many episodes wait for an answer."""
        wait_until(lambda: len(self.asked) >= episodes, f"{episodes} episodes wait")

    def stop(self):
        self.let(1 << 30)
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def agents():
    made = []

    def make(episodes=1 << 30):
        made.append(Agent(episodes))
        return made[-1]

    yield make
    for agent in made:
        agent.stop()


class Run:
    """The result of csenv eval: its exit code, its object and its standard error."""

    def __init__(self, code, out, said, took):
        self.code, self.said, self.took = code, " ".join(said.split()), took
        self.status = json.loads(out)["status"] if out else None

    @property
    def figures(self):
        return {name: self.status.get(name) for name in ("episodes", "score", "passRate", "passHatK", "tasks", "categories", "difficulties", "languages", "progress")}

    def condition(self, kind):
        (found,) = [c for c in self.status["conditions"] if c["type"] == kind]
        return f"{found['status']}/{found['reason']}: {found['message']}"


class Player:
    """csenv eval of one manifest, with any store."""

    def __init__(self, folder, agent=None, trials=2, parallelism=2):
        ids = [f"{letter}{n:02}" for letter in "BT" for n in range(1, 11)]
        self.episodes = trials * len(ids)
        run = {
            "apiVersion": "csenv.dev/v1alpha1", "kind": "EvaluationRun", "metadata": {"name": "probe"},
            "spec": {
                "environmentRef": {"name": "support"}, "seed": 42, "parallelism": parallelism, "concurrency": 4,
                "agent": {"type": "HTTP", "http": {"url": agent.url}} if agent else {"type": "Builtin", "builtin": {"policy": "Heuristic"}},
                "tasks": [{"name": "ticket-classify", "trials": trials, "scenarios": {"ids": ids}}],
            },
        }
        self.file = folder / f"run-{secrets.token_hex(4)}.json"
        self.file.write_text(json.dumps(run))

    def start(self, gateway, url, **environment):
        command = [program("csenv"), "eval", "-f", str(self.file), "-o", "json", "--results", url]
        process = subprocess.Popen(command, env=gateway.environment | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.began = time.monotonic()
        return process

    def finish(self, process):
        out, said = process.communicate(timeout=180)
        return Run(process.returncode, out, said, time.monotonic() - process.began)

    def play(self, gateway, url, **environment):
        return self.finish(self.start(gateway, url, **environment))


@pytest.fixture
def player(tmp_path):
    return lambda *args, **options: Player(tmp_path, *args, **options)


class Pool:
    """An env server with a ledger key that survives its restarts, and the runners that play on it."""

    def __init__(self, folder):
        self.folder, self.key, self.process = folder, ed25519.Ed25519PrivateKey.generate(), None
        pem = self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (folder / "ledger.pem").write_bytes(pem)
        self.runners = []

    def start(self):
        self.address = f"127.0.0.1:{free_port()}"
        command = [program("envserver"), "--addr", self.address, "--ops-addr", "127.0.0.1:0", "--ledger-key", str(self.folder / "ledger.pem")]
        with open(self.folder / "envserver.log", "ab") as logs:
            self.process = subprocess.Popen(command, stdout=logs, stderr=logs)
        wait_until(self.answers, "the env server serves")

    def answers(self):
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(f"http://{self.address}/health", timeout=5).status == 200

    def plan(self, plan):
        """Starts runners that play the plan of a new run."""
        public = self.key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        run = str(uuid.uuid4())
        self.credential = self.credential_of(run)
        (self.folder / "plan.json").write_text(json.dumps(plan | {"run": run, "ledgerKey": base64.b64encode(public).decode()}))

    def credential_of(self, run):
        """Derives what the operator gives to a run's runners."""
        seed = self.key.private_bytes(serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption())
        of_runs = HKDF(hashes.SHA256(), length=32, salt=None, info=b"csenv runs").derive(seed)
        return hmac.new(of_runs, run.encode(), "sha256").hexdigest()

    def runner(self, gateway, url, agent, shard=0, **environment):
        summary = self.folder / f"summary-{secrets.token_hex(4)}.json"
        who = json.dumps({"type": "HTTP", "http": {"url": agent.url}})
        command = [program("runner"), "--plan", str(self.folder / "plan.json"), "--shard", str(shard), "--pool", self.address, "--agent", who, "--concurrency", "4"]
        with open(self.folder / "runner.log", "ab") as logs:
            process = subprocess.Popen([*command, "--termination-log", str(summary), "--results", url], env=gateway.environment | {"CSENV_RUN_CREDENTIAL": self.credential} | environment, stdout=logs, stderr=logs)
        process.summary = summary
        self.runners.append(process)
        return process

    def finish(self, runner):
        """Returns a runner's summary."""
        assert runner.wait(180) == 0, runner.summary.read_text()
        return json.loads(runner.summary.read_text())

    def stop(self):
        for process in [*self.runners, self.process]:
            if process:
                kill(process)


@pytest.fixture
def pool(tmp_path):
    pool = Pool(tmp_path)
    pool.start()
    yield pool
    pool.stop()


@pytest.fixture(scope="session")
def small_disks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mount")
    if not shutil.which("unshare") or subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("this machine does not permit mounts in a user namespace")
