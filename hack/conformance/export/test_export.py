"""Exported episodes, read by the packages that they are for."""

import json
from datetime import datetime

import pytest
from conftest import IDS, LOGPROBS, PROMPT_IDS
from customer_support_harbor import write_trajectories
from customer_support_inspect import write_logs
from datasets import Dataset, load_dataset
from harbor.models.trajectories import Trajectory
from harbor.utils.traces_utils import collect_conversations_from_trial
from harbor.utils.trajectory_validator import TrajectoryValidator
from inspect_ai.analysis import evals_df, samples_df
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries, write_eval_log

SPLITS = {"train": "public-train", "validation": "public-dev", "test": "public-test"}


def by_episode(dataset):
    return {(row["run"], row["episode"]): row for row in dataset}


def with_texts(row):
    """The row with the texts of the times that `datasets` recognises in JSON."""
    return {key: value.isoformat() + "Z" if isinstance(value, datetime) else value for key, value in row.items()}


def test_rows(rows):
    assert len(rows) == 80 + 216 + 4
    for row in rows.values():
        assert len(row["messages"]) == 2 + 2 * len(row["steps"])
        assert [m["role"] for m in row["messages"][:2]] == ["system", "user"] and row["gold"] is None
        assert row["reward"] == pytest.approx(sum(step["reward"] for step in row["steps"]), abs=1e-9)
        for step in row["steps"]:
            asked = row["messages"][step["message"]]
            assert asked["role"] == "assistant"
            if asked["tool_calls"]:
                json.loads(asked["tool_calls"][0]["function"]["arguments"])
                assert asked["tool_calls"][0]["id"] == row["messages"][step["message"] + 1]["tool_call_id"]
        assert {tool["type"] for tool in json.loads(row["tools"])} == {"function"}


def test_token_traces(rows):
    traced = [row for (run, _), row in rows.items() if run == "model"]
    for row in traced:
        assert [bool(step["refused"]) for step in row["steps"]] == [True, False]
        assert (row["prompt_tokens"], row["completion_tokens"]) == (2 * len(PROMPT_IDS), 2 * len(IDS))
        for step in row["steps"]:
            assert (step["prompt_token_ids"], step["completion_token_ids"], step["logprobs"]) == (PROMPT_IDS, IDS, LOGPROBS)
            assert step["completion_token_texts"] == ["t0", "t1"]
    assert all(step["logprobs"] is None for (run, _), row in rows.items() if run != "model" for step in row["steps"])


def test_json_lines(export, rows):
    assert by_episode(map(with_texts, load_dataset("json", data_files=str(export("jsonl")), split="train"))) == rows


def test_parquet(export, rows):
    assert by_episode(Dataset.from_parquet(str(export("parquet")))) == rows


def test_huggingface(export, rows):
    splits = load_dataset(str(export("hf")))
    assert set(splits) <= set(SPLITS)
    for name, dataset in splits.items():
        assert {row["split"] for row in dataset} == {SPLITS[name]}
    assert {key: row for dataset in splits.values() for key, row in by_episode(dataset).items()} == rows


def test_inspect(csenv, store, export, rows, tmp_path):
    folder = tmp_path / "logs"
    write_logs(export("jsonl").read_text().splitlines(), folder)
    for run in ("tickets", "cases", "model"):
        want = {key: row for key, row in rows.items() if key[0] == run}
        path = str(folder / f"{run}.eval")
        log = read_eval_log(path)
        status = json.loads(csenv("results", run, "--results", store, "-o", "json"))["status"]
        mean = log.results.scores[0].metrics["mean"].value
        assert mean == pytest.approx(float(status["score"]["mean"]), abs=5e-5)
        assert (log.status, log.eval.task, len(log.samples)) == ("success", run, len(want))
        for sample in log.samples:
            row = want.pop((run, sample.metadata["episode"]))
            assert sample.scores["csenv"].value == row["score"] and sample.epoch == row["trial"] + 1
            assert [m.role for m in sample.messages] == [m["role"] for m in row["messages"]]
            assert [m.text for m in sample.messages] == [m["content"] or "" for m in row["messages"]]
            for step in row["steps"]:
                asked, result = sample.messages[step["message"] : step["message"] + 2]
                assert result.metadata["reward"] == step["reward"]
                if step["prompt_token_ids"]:
                    assert asked.metadata["trace"]["completion_token_ids"] == IDS
                if asked.tool_calls:
                    assert result.tool_call_id == asked.tool_calls[0].id and result.function == asked.tool_calls[0].function
            assert read_eval_log_sample(path, sample.id, sample.epoch).uuid == row["episode_id"]
        assert not want and len(read_eval_log_sample_summaries(path)) == len(log.samples)
        # Inspect's own writer and reader lose nothing.
        again = str(tmp_path / f"{run}.json")
        write_eval_log(log, again)
        assert read_eval_log(again).samples == log.samples
    assert set(evals_df(str(folder))["task_name"]) == {"tickets", "cases", "model"}
    assert len(samples_df(str(folder))) == len(rows)
    assert log.stats.model_usage["m"].total_tokens == 4 * 2 * (len(PROMPT_IDS) + len(IDS))


def test_harbor(export, rows, tmp_path):
    folder = tmp_path / "trials"
    assert write_trajectories(export("jsonl").read_text().splitlines(), folder) == len(rows)
    for (run, episode), row in rows.items():
        path = folder / run / str(episode) / "agent" / "trajectory.json"
        validator = TrajectoryValidator()
        assert validator.validate(path), validator.errors
        written = json.loads(path.read_text())
        trajectory = Trajectory.model_validate(written)
        assert trajectory.to_json_dict(exclude_none=False)["extra"] == written["extra"]
        assert trajectory.extra["score"] == row["score"] and len(trajectory.steps) == 2 + len(row["steps"])
        for step, want in zip(trajectory.steps[2:], row["steps"], strict=True):
            assert step.extra["reward"] == want["reward"] and step.message == (row["messages"][want["message"]]["content"] or "")
            assert step.observation.results[0].content == row["messages"][want["message"] + 1]["content"]
            if want["prompt_token_ids"]:
                assert (step.metrics.prompt_token_ids, step.metrics.completion_token_ids, step.metrics.logprobs) == (PROMPT_IDS, IDS, LOGPROBS)
    # Harbor's exporter of conversations reads the folder of a trial.
    about = dict.fromkeys(["agent_name", "model_name", "model_provider", "task_name", "trial_name", "run_id", "start_time"], "x")
    conversations = collect_conversations_from_trial(folder / "tickets" / "0", run_meta=about, episodes="last")
    said = conversations[-1]["conversations"]
    assert {m["role"] for m in said} == {"user", "assistant"} and any("knowledge_base" in m["content"] for m in said)
