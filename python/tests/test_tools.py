"""Tools as functions: without a server, and on the server in CSENV_TICKET_URL."""

import asyncio
import inspect
import json
import os
import pathlib
import subprocess
import sys
from typing import Literal, Optional, get_type_hints

import pytest
from customer_support_env import AsyncToolClient, Episode, EpisodeLost, Tool, ToolClient, list_tools, parse_call
from customer_support_env.tools import endpoint, session_url
from openenv.core.client_types import StepResult

MESSAGE = {"type": "string", "description": "What to write."}
CATEGORY = {"anyOf": [{"enum": ["billing", "general"], "type": "string"}, {"type": "null"}], "default": None, "description": "What it is about."}
TOOL = Tool("answer", "Answers the customer.", {"type": "object", "properties": {"category": CATEGORY, "message": MESSAGE}, "required": ["message"]})


def test_function_has_the_tool_s_signature_types_and_docstring():
    calls = []
    function = TOOL.function(lambda name, arguments: calls.append((name, arguments)))
    assert str(inspect.signature(function)).startswith("(message: str, category: ")
    assert get_type_hints(function) == {"message": str, "category": Optional[Literal["billing", "general"]], "return": str}
    assert "Args:\n    category: What it is about.\n    message: What to write." in function.__doc__
    function("Hello")
    function(message="Hello", category="billing", mood="bad")
    assert calls == [("answer", {"message": "Hello"}), ("answer", {"message": "Hello", "category": "billing", "mood": "bad"})]


def test_lists_of_objects_are_typed_and_explained():
    what = {"type": "string", "enum": ["price", "team"], "description": "What is stated.\nprice: how much\nteam: who"}
    item = {"type": "object", "properties": {"what": what, "value": {"type": "string", "description": "Its value."}}}
    facts = {"anyOf": [{"type": "array", "items": item}, {"type": "null"}], "default": None, "description": "What it tells."}
    function = Tool("answer", "Answers.", {"type": "object", "properties": {"facts": facts}}).function(lambda name, arguments: arguments)
    assert get_type_hints(function)["facts"] == Optional[list[dict[str, str]]]
    assert "    facts: What it tells. what: What is stated. price: how much; team: who value: Its value.\n" in function.__doc__
    assert function(facts=[{"what": "price", "value": "8"}]) == {"facts": [{"what": "price", "value": "8"}]}


def test_method_is_bound_to_its_object():
    cls = type("Environment", (), {"answer": TOOL.function(lambda self, name, arguments: (self, name, arguments), method=True)})
    one = cls()
    assert one.answer(message="Hello") == (one, "answer", {"message": "Hello"})
    assert list(inspect.signature(one.answer).parameters) == ["message", "category"]


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "respond", "arguments": {"message": "Hello", "category": null}}',
        'I reply. <action>{"name": "respond", "arguments": {"message": "Hello"}}</action> Done.',
        '```json\n{"action_type": "respond", "message": "Hello"}\n```',
        '<tool_call>\n{"action_type": "respond", "payload": {"message": "Hello"}}',
    ],
)
def test_calls_in_texts(text):
    assert parse_call(text) == ("respond", {"message": "Hello"})


@pytest.mark.parametrize("text", ["", "Hello", "[]", "{}", '{"tool": 7}', '{"tool": "respond", "arguments": []}', "<action></action>"])
def test_text_without_a_call(text):
    with pytest.raises(ValueError, match="write one JSON object|must be"):
        parse_call(text)


def test_episode_adds_rewards_and_hides_the_score():
    episode = Episode()
    assert json.loads(episode.take(StepResult(observation={"task": "x", "step": 0, "score": None}, reward=0.0, done=False))) == {"task": "x", "step": 0}
    seen = {"task": "x", "step": 1, "score": 0.5, "metadata": {"episode_score": 0.5}}
    step = {"tool_name": "answer", "result": {"data": {"observation": seen}}}
    assert json.loads(episode.take(StepResult(observation=step, reward=0.5, done=True))) == {"step": 1, "done": True}
    assert episode.result() == episode.score == 0.5
    assert episode.refusal() == "error: the episode has ended"


def test_token_comes_from_the_url(monkeypatch):
    assert endpoint("http://x:a%2Fb@host:8000/") == ("http://host:8000", {"Authorization": "Bearer a/b"})
    assert session_url("http://host:8000", "a/b") == "http://csenv:a%2Fb@host:8000"
    monkeypatch.setenv("CSENV_URL", "http://other:9")
    monkeypatch.setenv("CSENV_TOKEN", "t")
    assert endpoint() == ("http://other:9", {"Authorization": "Bearer t"})


def test_no_server_is_a_connection_error_with_its_address():
    with pytest.raises(ConnectionError, match="http://127.0.0.1:9 doesn't list tools"):
        list_tools("http://127.0.0.1:9", timeout=5)


@pytest.fixture
def url():
    if not (found := os.environ.get("CSENV_TICKET_URL")):
        pytest.skip("CSENV_TICKET_URL names no server")
    return found


def test_invalid_calls_are_answered_and_the_episode_continues(url):
    with ToolClient(url, task="ticket-resolve") as client:
        task = client.reset(seed=7, note="a column", answer=float("nan"))
        assert json.loads(task)["task"] == "ticket-resolve" and "score" not in json.loads(task)
        assert client.call("get_observation", {}) == task
        assert client.call("dance", {}).startswith("error: ")
        assert client.call("classify", {"category": "sports"}).startswith("error: category should be one of")
        tools = {tool.__name__: tool for tool in client.tools}
        assert "Category: billing" in tools["classify"](category="billing")
        assert json.loads(tools["resolve"](message="Hello"))["done"]
        assert client.episode.result() == client.episode.score
        assert client.call("resolve", {}) == "error: the episode has ended"
        assert client.reset(seed=7) == task and client.episode == Episode(observation=client.episode.observation)


def test_async_client_plays_the_same(url):
    async def play():
        async with AsyncToolClient(url, task="ticket-resolve") as client:
            await client.reset(seed=7)
            await client.call("classify", {"category": "billing"})
            await client.call("resolve", {"message": "Hello"})
            return client.episode

    with ToolClient(url, task="ticket-resolve") as client:
        client.reset(seed=7)
        client.call("classify", {"category": "billing"})
        client.call("resolve", {"message": "Hello"})
        assert asyncio.run(play()) == client.episode


def test_lost_episode_has_no_reward(url):
    with ToolClient(url) as client:
        client.reset(seed=7)

        def broken(action):
            raise ConnectionResetError("reset by peer")

        client._sync.step = broken
        assert client.call("get_observation", {}).startswith("error: the environment was lost")
        with pytest.raises(EpisodeLost, match="reset by peer"):
            client.episode.result()
        assert client.call("get_observation", {}).startswith("error: the environment was lost")


def test_types():
    pytest.importorskip("mypy")
    folder = pathlib.Path(__file__).parent.parent
    modules = [f"customer_support_env/{name}.py" for name in ("__init__", "client", "models", "proxy", "tools", "trl")]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir", os.devnull, *modules],
        cwd=folder, env=os.environ | {"PYTHONPATH": ""}, capture_output=True, text=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr
