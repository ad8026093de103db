"""Logs of Inspect, made of exported episodes: `csenv export RUN… | python -m customer_support_inspect LOGS`.

Each run becomes LOGS/RUN.eval, for `inspect view` and `read_eval_log`. A sample is TASK:SCENARIO, an
epoch a trial. The extra `inspect` of the package installs Inspect.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inspect_ai.log import EvalConfig, EvalDataset, EvalError, EvalLog, EvalMetric, EvalResults, EvalSample, EvalScore, EvalSpec, EvalStats, write_eval_log
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageTool, ChatMessageUser, ModelOutput, ModelUsage
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall, ToolCallError

Row = dict[str, Any]
# Members of a row that have a place of their own in a sample.
PLACED = {"messages", "steps", "tools", "episode_id", "agent", "duration_ms"}


def make_log(rows: list[Row]) -> EvalLog:
    """Makes a log of the episodes of one run, which are the lines of the format jsonl."""
    samples: list[EvalSample] = []
    taken: set[tuple[str, int]] = set()
    for row in rows:
        name, epoch = f"{row['task']}:{row['scenario']}", row["trial"] + 1
        while (name, epoch) in taken:  # the same scenario with another seed
            epoch += 1
        taken.add((name, epoch))
        samples.append(make_sample(row, name, epoch))
    ids = list(dict.fromkeys(s.id for s in samples))
    scores = [row["score"] for row in rows if row["score"] is not None]
    results = EvalResults(total_samples=len(rows), completed_samples=len(scores))
    if scores:
        mean = {"mean": EvalMetric(name="mean", value=sum(scores) / len(scores))}
        results.scores = [EvalScore(name="csenv", scorer="csenv", scored_samples=len(scores), unscored_samples=len(rows) - len(scores), metrics=mean)]
    run, uid = rows[0]["run"], rows[0]["run_uid"]
    spec = EvalSpec(
        created=rows[0]["run_began"],
        task=run,
        eval_id=uid,
        run_id=uid,
        task_id=uid,
        model=rows[0]["agent"],
        config=EvalConfig(epochs=max(s.epoch for s in samples)),
        dataset=EvalDataset(name=rows[0]["environment"], samples=len(ids), sample_ids=ids),
        packages={"csenv": rows[0]["program_version"]},
    )
    stats = EvalStats(started_at=rows[0]["run_began"], completed_at=rows[0]["run_completed"] or "")
    used = usage(*(sum(row[part] or 0 for row in rows) for part in ("prompt_tokens", "completion_tokens")))
    if used.total_tokens:
        stats.model_usage = {spec.model: used}
    return EvalLog(status="success", eval=spec, results=results, stats=stats, samples=samples)


def make_sample(row: Row, name: str, epoch: int) -> EvalSample:
    """Makes a sample of an episode. What a sample has no member for is its metadata."""
    messages = [make_message(m) for m in row["messages"]]
    for step in row["steps"]:
        describe(step, messages[step["message"]], messages[step["message"] + 1])
    output = ModelOutput.from_message(messages[-2], "stop") if row["steps"] else ModelOutput()
    output.model = row["agent"]
    metadata = {key: value for key, value in row.items() if key not in PLACED and value is not None}
    if "gold" in metadata:
        metadata["gold"] = json.loads(metadata["gold"])
    sample = EvalSample(
        id=name,
        epoch=epoch,
        input=row["messages"][1]["content"],
        target="",
        messages=messages,
        output=output,
        metadata=metadata,
        total_time=row["duration_ms"] / 1000,
        uuid=row["episode_id"],
    )
    if row["score"] is not None:
        sample.scores = {"csenv": Score(value=row["score"], metadata={"judge": row["judge"], "basis": row["basis"]})}
    if row["error_class"]:
        sample.error = EvalError(message=row["error_class"], traceback="", traceback_ansi="")
    if row["prompt_tokens"] is not None:
        sample.model_usage = {row["agent"]: usage(row["prompt_tokens"], row["completion_tokens"])}
    return sample


def make_message(message: Row) -> ChatMessage:
    content = message["content"] or ""
    if message["role"] == "system":
        return ChatMessageSystem(content=content)
    if message["role"] == "user":
        return ChatMessageUser(content=content)
    if message["role"] == "tool":
        return ChatMessageTool(content=content, tool_call_id=message["tool_call_id"])
    calls = [ToolCall(id=c["id"], function=c["function"]["name"], arguments=json.loads(c["function"]["arguments"])) for c in message["tool_calls"] or []]
    return ChatMessageAssistant(content=content, tool_calls=calls or None)


def describe(step: Row, asked: ChatMessage, result: ChatMessage) -> None:
    """Adds the tokens to the agent's message, and the reward to the one with the result."""
    asked.metadata, result.metadata = {}, {"reward": step["reward"]}
    if step["prompt_tokens"] is not None:
        asked.metadata["usage"] = usage(step["prompt_tokens"], step["completion_tokens"]).model_dump(exclude_none=True)
    trace = {key: step[key] for key in ("prompt_token_ids", "completion_token_ids", "completion_token_texts", "logprobs") if step[key]}
    if trace:
        asked.metadata["trace"] = trace
    if step["dense_reward"] is not None:
        result.metadata["dense_reward"] = step["dense_reward"]
    if isinstance(result, ChatMessageTool) and isinstance(asked, ChatMessageAssistant) and asked.tool_calls:
        result.function = asked.tool_calls[0].function
        if step["refused"]:
            result.error = ToolCallError("parsing", step["refused"])


def usage(prompt: int, completion: int) -> ModelUsage:
    return ModelUsage(input_tokens=prompt, output_tokens=completion, total_tokens=prompt + completion)


def write_logs(lines: Iterable[str], folder: Path) -> list[Path]:
    """Writes a log for each run of the lines, and returns their paths. A log that is there is not replaced."""
    runs: dict[str, list[Row]] = {}
    for line in lines:
        row = json.loads(line)
        runs.setdefault(row["run"], []).append(row)
    paths = [folder / f"{run}.eval" for run in runs]
    for path in paths:
        if path.exists():
            raise FileExistsError(f"{path} exists: name another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    for path, rows in zip(paths, runs.values(), strict=True):
        write_eval_log(make_log(rows), str(path))
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description="Write exported episodes (csenv export, standard input) as logs of Inspect.")
    parser.add_argument("folder", type=Path, help="folder of the logs")
    try:
        paths = write_logs(sys.stdin, parser.parse_args().folder)
    except (FileExistsError, KeyError, json.JSONDecodeError) as error:
        sys.exit(f"error: {error}" if isinstance(error, FileExistsError) else f"error: standard input isn't what `csenv export` writes: {error!r}")
    if not paths:
        sys.exit("error: standard input has no episode")
