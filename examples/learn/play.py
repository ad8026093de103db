"""Episodes of one step, played through OpenEnv's client by several sessions at a time."""

import asyncio
import dataclasses
import json
import time
import urllib.request

import numpy as np
from openenv.core.generic_client import GenericEnvClient
from websockets.exceptions import WebSocketException

from features import features
from policy import action, advantages

PATIENCE = 60  # seconds in which every episode is lost, after which the server is taken to be lost
PASS_SCORE = 800_000  # in millionths, the default of runs of type External


@dataclasses.dataclass
class Tally:
    """The figures of a run of type External: it counts every tagged episode that ended."""

    scored: int = 0
    passed: int = 0
    errored: int = 0  # ended without a score, by the fault of the server
    lost: int = 0  # not ended: the server's answer didn't arrive
    millionths: int = 0

    def add(self, score):
        part = round(score * 1e6)
        self.scored, self.millionths, self.passed = self.scored + 1, self.millionths + part, self.passed + (part >= PASS_SCORE)

    def __iadd__(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self

    @property
    def mean(self):
        return self.millionths / 1e6 / self.scored if self.scored else None

    @property
    def pass_rate(self):
        return self.passed / self.scored if self.scored else None


@dataclasses.dataclass
class Group:
    """Episodes of one ticket. Those without a score are left out."""

    ids: list
    labels: np.ndarray
    log_probability: np.ndarray
    rewards: list

    @property
    def advantages(self):
        return advantages(self.rewards)


class Server:
    """The sessions at a server."""

    def __init__(self, url, token="", sessions=16):
        self.url, self.headers = url.rstrip("/"), {"Authorization": "Bearer " + token} if token else {}
        self.clients, self.sessions = None, sessions
        self.failing = None  # since when every episode is lost
        self.thinking = 0.0  # seconds for features and choices of labels

    async def __aenter__(self):
        self.clients = asyncio.Queue()
        for _ in range(self.sessions):
            self.clients.put_nowait(GenericEnvClient(base_url=self.url, headers=self.headers))
        return self

    async def __aexit__(self, *_):
        while not self.clients.empty():
            await self.clients.get_nowait().close()

    def entries(self, task, split, prefix=""):
        """Returns the tickets of a split whose ids begin with the prefix, as options of a reset."""
        request = urllib.request.Request(f"{self.url}/{task}/tasks", json.dumps({"split": split}).encode(),
                                         {"Content-Type": "application/json", **self.headers})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [{"task": e["task"], "scenario": e["scenario"]} for e in json.load(answer)["tasks"] if e["scenario"].startswith(prefix)]

    async def together(self, play, wanted):
        """Calls play with a client and each of the wanted things, as many at a time as there are sessions."""
        async def one(item):
            client = await self.clients.get()
            try:
                return await play(client, *item)
            finally:
                self.clients.put_nowait(client)

        return await asyncio.gather(*[one(item) for item in wanted])

    async def group(self, client, policy, options, size, random, tally):
        """Plays a group of episodes with one seed. Returns None if none of them has a score."""
        ids, logs, labels, rewards = None, None, [], []
        for _ in range(size):
            def choose(observation):
                nonlocal ids, logs
                if ids is None:  # the observation is the same in the whole group
                    ids = features(observation)
                    logs = policy.log_probabilities(ids)
                return [sample(random, np.exp(logs[:4])), sample(random, np.exp(logs[4:]))]

            chosen, score = await self.episode(client, choose, options, tally)
            if score is not None:
                labels.append(chosen)
                rewards.append(score)
        if not rewards:
            return None
        labels = np.array(labels)
        return Group(ids, labels, logs[labels[:, 0]] + logs[4 + labels[:, 1]], rewards)

    async def greedy(self, client, policy, options, tally):
        """Plays an episode with the most probable labels, and returns its score or None."""
        def choose(observation):
            logs = policy.log_probabilities(features(observation))
            return [int(logs[:4].argmax()), int(logs[4:].argmax())]

        return (await self.episode(client, choose, options, tally))[1]

    async def episode(self, client, choose, options, tally):
        """Plays an episode, again if it is lost, and returns the labels and the score, or None if it errored."""
        while True:
            try:
                observation = (await client.reset(**options)).observation
                started = time.perf_counter()
                labels = choose(observation)
                self.thinking += time.perf_counter() - started
                last = await client.step(action(labels))
                break
            except (OSError, RuntimeError, TimeoutError, WebSocketException) as error:
                tally.lost += 1
                now = time.monotonic()
                self.failing = self.failing or now
                if now - self.failing > PATIENCE:
                    raise RuntimeError(f"every episode of {PATIENCE} seconds was lost at {self.url}: {error}") from error
                await client.disconnect()  # the next reset connects again
                await asyncio.sleep(0.2)  # a Service sends connections to a dead server for some seconds
        self.failing = None
        if not last.done:
            raise ValueError(f"an episode of {options['task']} doesn't end with the first labels: choose a task that does")
        if last.metadata["outcome"] == "errored":
            tally.errored += 1
            return labels, None
        tally.add(last.metadata["episode_score"])
        return labels, last.metadata["episode_score"]


def sample(random, probabilities):
    return min(int(np.searchsorted(probabilities.cumsum(), random.random())), len(probabilities) - 1)
