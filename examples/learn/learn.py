"""Trains a small policy on the rewards of a csenv server, and draws its learning curve. README.md describes it."""

import argparse
import asyncio
import contextlib
import itertools
import json
import math
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the server needs the other processor

import numpy as np

from play import Server, Tally
from policy import Policy

TRAIN, HELD_OUT = "public-train", ("public-dev", "public-test")  # the first of these splits that has tickets is in the curve
TICKETS, GROUP = 64, 8  # of an update: different tickets, and episodes of each
EXAMINED = 256  # episodes of a point of the curve, for each split
FINAL = 2048  # episodes of a final figure
EVERY = 25  # updates between two points of the curve, after the first ones
EXAM_SEEDS = 1 << 40  # no update plays seeds as large


class Trainer:
    def __init__(self, server, task, seed=0, run="", scenarios=""):
        self.server, self.seed, self.tag = server, seed, {"run": run} if run else {}
        self.policy, self.tally = Policy(seed), Tally()
        self.random = np.random.default_rng([seed, 2])
        splits = {split: server.entries(task, split, scenarios) for split in (TRAIN, *HELD_OUT)}
        self.splits = {split: entries for split, entries in splits.items() if entries}
        if TRAIN not in self.splits or len(self.splits) == 1:
            raise ValueError(f"{server.url} needs tickets of {task} in {TRAIN} and in {' or '.join(HELD_OUT)}"
                             + (f" whose ids begin with {scenarios!r}" if scenarios else ""))
        self.updates, self.seconds = 0, {"play": 0.0, "update": 0.0, "exam": 0.0}

    @contextlib.contextmanager
    def clock(self, part):
        started = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - started

    async def update(self):
        """Plays a group of each of some training tickets, improves the policy, and returns the figures of these episodes."""
        tally, wanted, train = Tally(), [], self.splits[TRAIN]
        for i, k in enumerate(self.random.integers(len(train), size=TICKETS)):
            number = self.updates * TICKETS + i
            options = train[k] | self.tag | {"seed": (self.seed << 26) + number}
            wanted.append((self.policy, options, GROUP, np.random.default_rng([self.seed, 3, number]), tally))
        with self.clock("play"):
            groups = await self.server.together(self.server.group, wanted)
        with self.clock("update"):
            self.policy.update([g for g in groups if g])
        self.updates += 1
        self.tally += tally
        return tally

    async def examine(self, split, episodes):
        """Plays new instances of a split's tickets with the most probable labels. Returns mean, standard error and number of scores."""
        entries, tally = self.splits[split], Tally()
        seeds = itertools.count(EXAM_SEEDS)
        # Every ticket is played equally often, or some of them once, evenly spread.
        chosen = np.linspace(0, len(entries), min(episodes, len(entries)), endpoint=False).astype(int)
        chosen = np.repeat(chosen, max(1, episodes // len(entries)))
        with self.clock("exam"):
            scores = await self.server.together(self.server.greedy, [
                (self.policy, entries[k] | {"seed": seed}, tally) for k, seed in zip(chosen, seeds, strict=False)])
        return clustered([(k, s) for k, s in zip(chosen, scores, strict=True) if s is not None])


def clustered(scores):
    """Returns mean, standard error clustered by ticket, and number of (ticket, score)."""
    if not scores:
        return None, None, 0
    tickets, values = map(np.array, zip(*scores, strict=True))
    _, cluster = np.unique(tickets, return_inverse=True)
    residuals = np.bincount(cluster, values - values.mean())
    g = len(residuals)
    error = np.sqrt(g / (g - 1) * (residuals**2).sum()) / len(values) if g > 1 else None
    return values.mean(), error, len(values)


async def train(trainer, minutes, updates, report):
    """Trains for a time or a number of updates, or until SIGTERM. report is called with the figures of each update."""
    started, told = time.monotonic(), asyncio.Event()
    held_out = next(split for split in HELD_OUT if split in trainer.splits)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)

    def ended():
        return time.monotonic() - started >= minutes * 60 or trainer.updates == updates or told.is_set()

    line = {}
    while True:
        n = trainer.updates
        if ended() or n % EVERY == 0 or (n < EVERY and n & (n - 1) == 0):
            line["train"] = rounded((await trainer.examine(TRAIN, EXAMINED))[0])
            line["held_out"] = rounded((await trainer.examine(held_out, EXAMINED))[0])
        elapsed = round(time.monotonic() - started, 2)
        report({"update": n, "episodes": trainer.tally.scored + trainer.tally.errored, "elapsed": elapsed} | line)
        if ended():
            return
        tally = await trainer.update()
        line = {"reward": rounded(tally.mean), "errored": tally.errored, "lost": tally.lost}


def rounded(figure):
    return None if figure is None else round(float(figure), 6)


@contextlib.contextmanager
def serving(program, packs, log):
    """Starts `csenv serve` with its log in a file, and yields its URL."""
    command = [program, "serve", "--addr", "127.0.0.1:0", "--ops-addr", "127.0.0.1:0"]
    for pack in packs:
        command += ["--pack", pack]
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        while (address := re.search(r"msg=Serving .*? addr=(\S+)", log.read_text())) is None:
            if process.poll() is not None:
                raise RuntimeError(f"the server ended: {log.read_text()}")
            time.sleep(0.05)
        yield "http://" + address[1]
    finally:
        process.terminate()
        process.wait()


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", help="an existing server or a pool's Service; without it, one is started")
    p.add_argument("--token", default=os.environ.get("CSENV_TOKEN", ""), help="the server's bearer token (variable CSENV_TOKEN)")
    p.add_argument("--csenv", default="bin/csenv", help="the program that is started as the server")
    p.add_argument("--pack", action="append", default=[], help="a pack that the started server serves too; may be repeated")
    p.add_argument("--task", default="ticket-classify", help="a task whose episodes end with the labels")
    p.add_argument("--scenarios", default="", help="play only the tickets whose ids begin with this")
    p.add_argument("--run", default="", help="the run of type External that collects the training episodes")
    p.add_argument("--seed", type=int, default=0, help="seed of the policy, the tickets and the sampled labels")
    p.add_argument("--minutes", type=float, default=10, help="how long to train")
    p.add_argument("--updates", type=int, help="end after this number of updates")
    p.add_argument("--sessions", type=int, default=16, help="concurrent sessions")
    p.add_argument("--out", default="bin/learn", help="folder for log.jsonl, summary.json, curve.png and curve.svg")
    return p.parse_args()


async def learn(options, url, out):
    """Trains and examines a policy, and returns the summary and the points of the curve."""
    curve = []
    with (out / "log.jsonl").open("w", buffering=1) as log:
        def report(line):
            log.write(json.dumps(line) + "\n")
            if "held_out" in line:
                curve.append(line)
                print(ROW.format(**{"reward": math.nan} | line), flush=True)

        async with Server(url, options.token, options.sessions) as server:
            trainer = Trainer(server, options.task, options.seed, options.run, options.scenarios)
            print("tickets: " + ", ".join(f"{split} {len(entries)}" for split, entries in trainer.splits.items()))
            print(HEAD)
            await train(trainer, options.minutes, options.updates, report)
            final = {split: await trainer.examine(split, FINAL) for split in trainer.splits}
    tally = trainer.tally
    return {
        "task": options.task, "seed": options.seed, "run": options.run, "updates": trainer.updates,
        "elapsed": curve[-1]["elapsed"], "episodes": tally.scored + tally.errored, "errored": tally.errored, "lost": tally.lost,
        "mean": rounded(tally.mean), "passRate": rounded(tally.pass_rate),
        "final": {split: {"tickets": len(trainer.splits[split]), "episodes": n, "mean": rounded(mean), "standardError": rounded(error)}
                  for split, (mean, error, n) in final.items()},
        "seconds": {part: rounded(s) for part, s in (trainer.seconds | {"features and choices": server.thinking}).items()},
    }, curve


HEAD = "  update  episodes  seconds  reward   train  held out"
ROW = "{update:8d}  {episodes:8d}  {elapsed:7.0f}  {reward:6.3f}  {train:6.3f}  {held_out:8.3f}"


def show(summary):
    """Prints the final figures."""
    print("\nmost probable labels on new instances (mean ± standard error by ticket)")
    for split, f in summary["final"].items():
        print(f"  {split:13} {f['mean']:.3f} ± {f['standardError']:.3f}   {f['tickets']} tickets, {f['episodes']} episodes")
    tag = f" of run {summary['run']}" if summary["run"] else ""
    print(f"training episodes{tag}: {summary['episodes']}, {summary['errored']} of them errored, mean score {summary['mean']:.6f}, "
          f"pass rate {summary['passRate']:.6f}; lost: {summary['lost']}")
    s = summary["seconds"]
    print(f"{summary['episodes'] / s['play']:.0f} episodes/s; seconds: "
          f"{s['play']:.0f} playing ({s['features and choices']:.0f} of all playing for features and choices), "
          f"{s['update']:.0f} updating, {s['exam']:.0f} examining")


def main():
    options = arguments()
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext(options.url) if options.url else serving(options.csenv, options.pack, out / "server.log") as url:
        summary, curve = asyncio.run(learn(options, url, out))
    used, server = (sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    summary["processor"] = {"trainer": round(used, 1)} | ({} if options.url else {"server": round(server, 1)})
    (out / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    show(summary)
    print("processor seconds: " + ", ".join(f"{who} {s:.0f}" for who, s in summary["processor"].items()))
    from plot import draw  # noqa: PLC0415, matplotlib is slow to import, and tests don't have it
    draw(curve, summary, out)
    print(f"curve: {out}/curve.png, {out}/curve.svg; log: {out}/log.jsonl; figures: {out}/summary.json")


if __name__ == "__main__":
    main()
