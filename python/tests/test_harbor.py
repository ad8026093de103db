"""Episodes as `csenv export` writes them become trajectories that Harbor validates."""

import json

import pytest

pytest.importorskip("harbor")
from customer_support_harbor import write_trajectories
from harbor.utils.trajectory_validator import TrajectoryValidator
from test_inspect import exported


def test_trajectory(tmp_path):
    assert write_trajectories([exported(), exported(episode=1, score=None, gold=None)], tmp_path) == 2
    path = tmp_path / "r" / "0" / "agent" / "trajectory.json"
    validator = TrajectoryValidator()
    assert validator.validate(path), validator.errors
    written = json.loads(path.read_text())
    assert (written["session_id"], written["agent"]["model_name"], written["extra"]["score"]) == ("u", "m", 0.5)
    assert written["extra"]["gold"] == [{"heading": "Ticket"}]
    step = written["steps"][2]
    assert step["tool_calls"] == [{"tool_call_id": "c1", "function_name": "classify", "arguments": {"category": "billing"}}]
    assert step["metrics"] == {"prompt_tokens": 5, "completion_tokens": 2, "prompt_token_ids": [1], "completion_token_ids": [2], "logprobs": [-0.5]}
    assert step["extra"] == {"reward": -0.1, "refused": "No such member."}
    # Nothing is replaced.
    with pytest.raises(FileExistsError):
        write_trajectories([exported()], tmp_path)
