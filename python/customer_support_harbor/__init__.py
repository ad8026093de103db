"""Trajectories of Harbor, made of exported episodes: `csenv export RUN… | python -m customer_support_harbor TRIALS`.

Each episode becomes TRIALS/RUN/EPISODE/agent/trajectory.json in the Agent Trajectory Interchange
Format, where Harbor expects the trajectory of a trial. The extra `harbor` of the package installs Harbor.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harbor.models.trajectories import Agent, FinalMetrics, Metrics, Observation, ObservationResult, Step, ToolCall, Trajectory

Row = dict[str, Any]
# Members of a row that have a place of their own in a trajectory.
PLACED = {"messages", "steps", "tools", "episode_id", "run_uid", "agent", "program_version"}


def make_trajectory(row: Row) -> Trajectory:
    """Makes the trajectory of an episode, which is a line of the format jsonl. What a trajectory has no member for is its extra."""
    messages = row["messages"]
    steps = [Step(step_id=i + 1, source=m["role"], message=m["content"]) for i, m in enumerate(messages[:2])]
    steps += [make_step(i + 3, step, *messages[step["message"] : step["message"] + 2]) for i, step in enumerate(row["steps"])]
    extra = {key: value for key, value in row.items() if key not in PLACED and value is not None}
    if "gold" in extra:
        extra["gold"] = json.loads(extra["gold"])
    prompt, completion = row["prompt_tokens"], row["completion_tokens"]
    return Trajectory(
        session_id=row["run_uid"],
        trajectory_id=row["episode_id"],
        agent=Agent(
            name=row["agent"],
            version=row["program_version"],
            model_name=None if prompt is None else row["agent"],
            tool_definitions=json.loads(row["tools"]),
        ),
        steps=steps,
        final_metrics=None if prompt is None else FinalMetrics(total_prompt_tokens=prompt, total_completion_tokens=completion),
        extra=extra,
    )


def make_step(number: int, step: Row, asked: Row, result: Row) -> Step:
    calls = [ToolCall(tool_call_id=c["id"], function_name=c["function"]["name"], arguments=json.loads(c["function"]["arguments"])) for c in asked["tool_calls"] or []]
    tokens = {key: step[key] for key in ("prompt_tokens", "completion_tokens", "prompt_token_ids", "completion_token_ids", "logprobs") if step[key] is not None}
    return Step(
        step_id=number,
        source="agent",
        message=asked["content"] or "",
        tool_calls=calls or None,
        observation=Observation(results=[ObservationResult(source_call_id=result["tool_call_id"], content=result["content"])]),
        metrics=Metrics(**tokens) if tokens else None,
        extra={key: step[key] for key in ("reward", "dense_reward", "refused") if step[key] is not None},
    )


def write_trajectories(lines: Iterable[str], folder: Path) -> int:
    """Writes a trajectory for each line, and returns their number. One that is there is not replaced."""
    count = 0
    for line in lines:
        row = json.loads(line)
        path = folder / row["run"] / str(row["episode"]) / "agent" / "trajectory.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x") as file:
            json.dump(make_trajectory(row).to_json_dict(), file)
        count += 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description="Write exported episodes (csenv export, standard input) as trajectories of Harbor.")
    parser.add_argument("folder", type=Path, help="folder of the trials")
    try:
        if write_trajectories(sys.stdin, parser.parse_args().folder) == 0:
            sys.exit("error: standard input has no episode")
    except FileExistsError as error:
        sys.exit(f"error: {error.filename} exists: name another folder, or remove it")
    except (KeyError, json.JSONDecodeError) as error:
        sys.exit(f"error: standard input isn't what `csenv export` writes: {error!r}")
