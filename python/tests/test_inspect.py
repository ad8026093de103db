"""Episodes as `csenv export` writes them become logs that Inspect reads."""

import json

import pytest

pytest.importorskip("inspect_ai")
from customer_support_inspect import write_logs
from inspect_ai.log import read_eval_log


def exported(**changed):
    call = {"id": "c1", "type": "function", "function": {"name": "classify", "arguments": '{"category": "billing"}'}}
    messages = [
        {"role": "system", "content": "Be kind.", "tool_calls": None, "tool_call_id": None},
        {"role": "user", "content": "A ticket.", "tool_calls": None, "tool_call_id": None},
        {"role": "assistant", "content": None, "tool_calls": [call], "tool_call_id": None},
        {"role": "tool", "content": "No such member.", "tool_calls": None, "tool_call_id": "c1"},
    ]
    step = {"message": 2, "action": "{}", "refused": "No such member.", "reward": -0.1, "dense_reward": None, "prompt_tokens": 5, "completion_tokens": 2}
    step |= {"prompt_token_ids": [1], "completion_token_ids": [2], "completion_token_texts": None, "logprobs": [-0.5]}
    row = {"run": "r", "run_uid": "u", "episode": 0, "episode_id": "e0", "environment": "ticket", "task": "ticket-classify", "scenario": "B06"}
    row |= {"split": "public-dev", "trial": 0, "seed": 1, "agent": "m", "run_began": "2026-11-28T10:00:00Z", "run_completed": None}
    row |= {"program_version": "v0.1.0", "outcome": "failed", "error_class": None, "score": 0.5, "reward": -0.1, "dimensions": [], "answers": 1}
    row |= {"messages": messages, "tools": "[]", "steps": [step], "prompt_tokens": 5, "completion_tokens": 2, "judge": "rules", "basis": "Facts."}
    row |= {"duration_ms": 1500, "gold": '[{"heading": "Ticket"}]'}
    return json.dumps(row | changed)


def test_log(tmp_path):
    lines = [exported(), exported(episode=1, episode_id="e1", outcome="errored", error_class="judge_failed", score=None), exported(run="q")]
    assert [p.name for p in write_logs(lines, tmp_path / "logs")] == ["r.eval", "q.eval"]
    log = read_eval_log(str(tmp_path / "logs" / "r.eval"))
    assert (log.eval.task, log.eval.packages, log.results.scores[0].metrics["mean"].value) == ("r", {"csenv": "v0.1.0"}, 0.5)
    assert log.stats.model_usage["m"].total_tokens == 14
    scored, errored = log.samples
    assert (scored.id, scored.epoch, scored.scores["csenv"].value, scored.metadata["gold"]) == ("ticket-classify:B06", 1, 0.5, [{"heading": "Ticket"}])
    asked, answered = scored.messages[2:]
    assert (asked.tool_calls[0].arguments, asked.metadata["trace"]["logprobs"]) == ({"category": "billing"}, [-0.5])
    assert (answered.function, answered.error.message, answered.metadata["reward"]) == ("classify", "No such member.", -0.1)
    # Another episode of the same scenario and trial is another epoch; without a score it is an error.
    assert (errored.epoch, errored.scores, errored.error.message) == (2, None, "judge_failed")


def test_a_log_is_never_replaced(tmp_path):
    (tmp_path / "r.eval").touch()
    with pytest.raises(FileExistsError, match="name another folder"):
        write_logs([exported()], tmp_path)
    assert (tmp_path / "r.eval").stat().st_size == 0
