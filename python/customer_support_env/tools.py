"""Actions as Python functions, for agents and trainers that call tools.

The functions, their signatures and their docstrings are made from the tools that the server lists, so they are those of the
environment that the server has. They return text. An invalid call is answered with text that says what is wrong, and the episode
continues.
"""

from __future__ import annotations

import copy
import inspect
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Union
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from openenv.core.client_types import StepResult
from openenv.core.generic_client import GenericEnvClient

from .forking import fork
from .moving import MovingClient

__all__ = ["AsyncToolClient", "Episode", "EpisodeLost", "Tool", "ToolClient", "list_tools", "parse_call"]

DEFAULT_URL = "http://localhost:8000"
PYTHON_TYPES: dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "object": dict, "array": list}
RESET_OPTIONS = frozenset(
    "seed episode_id task scenario task_id split index reward_mode pressure invalid_action_penalty run shard episode pass_score csenv".split()
)
MAX_TOOLS_BYTES = 1 << 20


class EpisodeLost(RuntimeError):
    """The connection or the server failed, so the episode has no score. A trainer must drop it, not count it as 0."""


@dataclass(frozen=True)
class Tool:
    """An action that the server offers. parameters is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as chat APIs take it."""
        return {"type": "function", "function": {"name": self.name, "description": self.description, "parameters": self.parameters}}

    def signature(self) -> inspect.Signature:
        """The tool's parameters as Python has them; those that may be left out come last."""
        required = set(self.parameters.get("required", ()))
        found = [_parameter(name, schema, name in required) for name, schema in self.parameters.get("properties", {}).items()]
        return inspect.Signature(sorted(found, key=lambda p: p.default is not p.empty), return_annotation=str)

    def docstring(self) -> str:
        """The description with one line for each parameter, in Google's style."""
        lines = [f"    {name}: {_about(schema)}" for name, schema in self.parameters.get("properties", {}).items()]
        arguments = ["Args:", *lines, ""] if lines else []
        return "\n".join([self.description, "", *arguments, "Returns:", "    What the environment answers."])

    def function(self, call: Callable[..., Any], *, method: bool = False) -> Callable[..., Any]:
        """A function that passes its arguments to call(name, arguments), or as a method to call(self, name, arguments)."""
        signature = self.signature()

        def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
            # Names that the tool doesn't have go to the server too: its answer says what is allowed.
            given = dict(zip(signature.parameters, args)) | kwargs
            return {name: value for name, value in given.items() if value is not None}

        def played(*args: Any, **kwargs: Any) -> Any:
            owner, rest = (args[:1], args[1:]) if method else ((), args)
            return call(*owner, self.name, bind(rest, kwargs))

        # Python turns a function of a class into a method; transformers reads the signature of that.
        tool: Any = played
        this = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)] if method else []
        shown = [*this, *signature.parameters.values()]
        tool.__name__ = tool.__qualname__ = self.name
        tool.__doc__ = self.docstring()
        tool.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {"return": str}
        tool.__signature__ = signature.replace(parameters=shown)
        return played


def _parameter(name: str, schema: Mapping[str, Any], required: bool) -> inspect.Parameter:
    default = inspect.Parameter.empty if required else schema.get("default")
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=_annotation(schema))


def _about(schema: Mapping[str, Any]) -> str:
    """The description of a parameter and of the members of the objects that it lists, in a line."""
    about = [schema.get("description", "See the task.")]
    for part in (schema, *schema.get("anyOf", ())):
        for name, member in part.get("items", {}).get("properties", {}).items():
            first, _, rest = member.get("description", "").partition("\n")
            about.append(f"{name}: {first} {rest.replace(chr(10), '; ')}".strip())
    return " ".join(about)


def _annotation(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return Literal[tuple(schema["enum"])]
    if "anyOf" in schema:
        parts: Any = tuple(None if part.get("type") == "null" else _annotation(part) for part in schema["anyOf"])
        return Union[parts]
    if schema.get("type") == "array" and "items" in schema:
        return list[_annotation(schema["items"])]  # type: ignore[misc]
    if schema.get("type") == "object" and all(member.get("type") == "string" for member in schema.get("properties", {"": {}}).values()):
        return dict[str, str]
    return PYTHON_TYPES.get(str(schema.get("type")), str)


def endpoint(base_url: str | None = None, token: str | None = None) -> tuple[str, dict[str, str]]:
    """The server's URL and the headers for it. The defaults are $CSENV_URL, or http://localhost:8000, and $CSENV_TOKEN.

    A token that is written as the URL's password is sent as a header.
    """
    parts = urlsplit(base_url or os.environ.get("CSENV_URL") or DEFAULT_URL)
    token = token or unquote(parts.password or "") or os.environ.get("CSENV_TOKEN")
    url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")
    return url, {"Authorization": f"Bearer {token}"} if token else {}


def session_url(base_url: str | None = None, token: str | None = None) -> str:
    """The server's URL with the token as its password, because older clients of openenv take no headers."""
    url, headers = endpoint(base_url, token)
    if not headers:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"csenv:{quote(headers['Authorization'].removeprefix('Bearer '), safe='')}@{parts.netloc}"))


def list_tools(base_url: str | None = None, *, token: str | None = None, timeout: float = 30) -> list[Tool]:
    """The tools of a server. It raises ConnectionError with the reason if the server doesn't list them."""
    url, headers = endpoint(base_url, token)
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    request = urllib.request.Request(url + "/mcp", body, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            listed = json.loads(answer.read(MAX_TOOLS_BYTES))["result"]["tools"]
    except urllib.error.HTTPError as error:
        raise ConnectionError(f"{url} answers {error.code}: {error.read(2000).decode(errors='replace')}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConnectionError(f"{url} doesn't list tools as csenv's servers do: {error!r}") from error
    return [Tool(one["name"], one.get("description", ""), one["inputSchema"]) for one in listed]


def parse_call(text: str) -> tuple[str, dict[str, Any]]:
    """Reads a tool call from a model's text: {"tool": NAME, "arguments": {…}}, also in a fence or in tags.

    An object {"action_type": NAME, …} is accepted as well. ValueError says what is wrong.
    """
    tagged = re.search(r"<(action|tool_call)>(.*?)(?:</\1>|$)|```(?:json)?\s*(.*?)```", text, re.DOTALL)
    inner = next((part for part in tagged.groups()[1:] if part is not None), text) if tagged else text
    try:
        call = json.loads(inner.strip())
    except ValueError as error:
        raise ValueError(f'write one JSON object such as {{"tool": "respond", "arguments": {{"message": "Hello"}}}}: {error}') from None
    if not isinstance(call, dict):
        raise ValueError("write one JSON object with the members tool and arguments")
    name = call.get("tool") or call.get("name") or call.get("action_type")
    rest = {key: value for key, value in call.items() if key not in ("tool", "name", "action_type")}
    arguments = rest.get("arguments", rest.get("payload", rest))
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ValueError("the member tool must be a text and the member arguments an object")
    return name, {key: value for key, value in arguments.items() if value is not None}


@dataclass
class Episode:
    """What an episode has brought so far.

    reward is the sum of the rewards in points. With terminal rewards, the server's default, it is the last one. score is the
    server's score of the ended episode, from 0 to 1. failure says why the episode was lost.
    """

    reward: float = 0.0
    done: bool = False
    score: float | None = None
    failure: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    observation: dict[str, Any] = field(default_factory=dict)

    def take(self, result: StepResult[dict[str, Any]]) -> str:
        """Counts the result of a reset or a step, and returns the text for the agent: what is new in the observation."""
        seen = result.observation
        if seen.get("error"):
            self.reward += result.reward or 0.0
            return f"error: {seen['error']['message']}"
        known = {} if seen.get("tool_name") == "get_observation" else self.observation
        if "tool_name" in seen:
            seen = ((seen.get("result") or {}).get("data") or {}).get("observation") or {}
        self.reward += result.reward or 0.0
        self.done = self.done or bool(result.done)
        metadata = seen.get("metadata") or result.metadata or {}
        if "episode_score" in metadata and self.score is None:
            self.metadata, self.score = metadata, metadata["episode_score"]
        hidden = ("metadata", "score", "reward", "done")
        new = {k: v for k, v in seen.items() if k not in hidden and v not in (None, "", [], {}) and v != known.get(k)}
        self.observation = seen
        return json.dumps(new | ({"done": True} if self.done else {}), ensure_ascii=False)

    def result(self) -> float:
        """The reward. It raises EpisodeLost if the connection or the server failed."""
        if self.failure:
            raise EpisodeLost(self.failure)
        return self.reward

    def refusal(self) -> str | None:
        """Why no further call is played, or None."""
        if self.failure:
            return f"error: {self.failure}"
        return "error: the episode has ended" if self.done else None

    def lose(self, error: Exception) -> str:
        """Notes that the episode was lost, and returns the text for the agent."""
        self.failure = f"the environment was lost, this episode has no score: {error}"
        return f"error: {self.failure}"


def _step(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "call_tool", "tool_name": name, "arguments": dict(arguments)}


def _survives(error: Exception) -> bool:
    """Whether the server refused a message and keeps the session."""
    return isinstance(error, RuntimeError) and any(code in str(error) for code in ("VALIDATION_ERROR", "INVALID_JSON"))


class _Client(MovingClient[Any, Any, Any], GenericEnvClient):
    """A client of any environment."""


class _Options:
    def __init__(self, base_url: str | None = None, *, token: str | None = None, tools: list[Tool] | None = None, **reset: Any) -> None:
        """tools are those of list_tools, if they are known already; reset has options for each reset."""
        self.url, _ = endpoint(base_url, token)
        self.offered = list_tools(base_url, token=token) if tools is None else tools
        self.defaults = reset
        self.episode = Episode()
        self._client = _Client(base_url=session_url(base_url, token))

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The tools as chat APIs take them."""
        return [tool.schema for tool in self.offered]

    def _options(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Begins a new count, and returns a row's reset options; the client's own ones take precedence."""
        self.episode = Episode()
        return {key: value for key, value in row.items() if key in RESET_OPTIONS and value is not None} | self.defaults

    def _twin(self, client: Any) -> Any:
        """A copy with another session and the same count."""
        twin = copy.copy(self)
        twin._client, twin.episode = client, copy.copy(self.episode)
        return twin


class ToolClient(_Options):
    """One session whose actions are functions, for synchronous code. It isn't safe for use by several threads at a time."""

    def __init__(self, base_url: str | None = None, *, token: str | None = None, tools: list[Tool] | None = None, **reset: Any) -> None:
        super().__init__(base_url, token=token, tools=tools, **reset)
        self._sync = self._client.sync()

    @property
    def tools(self) -> list[Callable[..., str]]:
        """The actions as functions."""
        return [tool.function(self.call) for tool in self.offered]

    def reset(self, **row: Any) -> str:
        """Begins an episode and returns the task as text. Members of row that are no reset options are ignored.

        It raises what the OpenEnv client raises if the server can't be reached or refuses an option.
        """
        result = self._sync.reset(**self._options(row))
        return self.episode.take(result)

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Plays an action and returns the answer as text, also if the action is invalid or the episode is over."""
        if refusal := self.episode.refusal():
            return refusal
        try:
            return self.episode.take(self._sync.step(_step(name, arguments)))
        except Exception as error:
            return f"error: {error}" if _survives(error) else self.episode.lose(error)

    def fork(self, n: int = 1) -> list[ToolClient]:
        """Copies the session into n new ones with the same future, all or none. Close each of them."""
        twins = []
        for one in fork(self._sync, n):
            twin = self._twin(one.async_client)
            twin._sync = one
            twins.append(twin)
        return twins

    def close(self) -> None:
        self._sync.close()

    def __enter__(self) -> ToolClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncToolClient(_Options):
    """One session whose actions are coroutine functions."""

    @property
    def tools(self) -> list[Callable[..., Any]]:
        """The actions as functions whose results are awaited."""
        return [tool.function(self.call) for tool in self.offered]

    async def reset(self, **row: Any) -> str:
        """Like ToolClient.reset."""
        result = await self._client.reset(**self._options(row))
        return self.episode.take(result)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Like ToolClient.call."""
        if refusal := self.episode.refusal():
            return refusal
        try:
            return self.episode.take(await self._client.step(_step(name, arguments)))
        except Exception as error:
            return f"error: {error}" if _survives(error) else self.episode.lose(error)

    async def fork(self, n: int = 1) -> list[AsyncToolClient]:
        """Like ToolClient.fork."""
        return [self._twin(one) for one in await fork(self._client, n)]

    async def close(self) -> None:
        await self._client.close()

    async def __aenter__(self) -> AsyncToolClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
