"""A real language model of 135 million parameters as an agent and as a judge. It is weak, so that no test requires a high score: they require that every answer counts as what it is."""

import json
from pathlib import Path

import pytest

REPLIES = Path(__file__).parents[3] / "envserver" / "grader" / "agreement" / "replies" / "test.jsonl"


@pytest.mark.parametrize("mode", ["tools", "json"])
def test_an_agent_is_scored(endpoint, csenv, say, tmp_path, mode):
    code, run, said = csenv("eval", "ticket-classify", "--model", "smollm2", "--base-url", endpoint, "--mode", mode, "--category", "billing", "--seed", 1, "--concurrency", 2, "--max-tokens", 200, "--results", tmp_path)
    assert code == 0, said
    status = run["status"]
    episodes = status["episodes"]
    assert episodes["scored"] + episodes.get("failed", 0) == episodes["total"] and not episodes.get("errored")
    code, listed, said = csenv("episodes", "smollm2", "--results", tmp_path)
    assert code == 0 and len(listed) == episodes["total"], said
    valid = steps = 0
    for record in records(tmp_path):
        for turn in record["turns"]:
            steps += 1
            valid += "action" in turn
    say(f"mode {mode}: mean score {status['score']['mean']}, {episodes['total']} episodes, {valid} of {steps} answers were an action")
    assert steps >= episodes["total"]


def records(store):
    return [json.loads(line) for file in sorted(store.rglob("*.jsonl")) for line in file.read_text().splitlines()]


def test_a_judge_is_measured(endpoint, csenv, say, tmp_path):
    replies = tmp_path / "replies.jsonl"
    tickets = [line for line in REPLIES.read_text().splitlines() if json.loads(line)["scenario"].startswith("B")]
    replies.write_text("\n".join(tickets[:2]))  # a minute each
    code, figures, said = csenv("judge", "agreement", replies, "--judge", "llm", "--judge-model", "smollm2", "--judge-base-url", endpoint, "--judge-votes", 1, "--judge-timeout", "100s", "--judge-max-concurrency", 1)
    assert code in (0, 1), said
    say(f"as a judge: {json.dumps(figures)[:600]}")
