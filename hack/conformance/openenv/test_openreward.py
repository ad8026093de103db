"""OpenReward's client, on whose sessions TRL's OpenRewardSpec plays. It puts "sessions." before the host, and before the user if the URL has one."""

import asyncio
import base64

import pytest
from openreward import AsyncOpenReward, OpenReward
from openreward.api.errors import SessionTerminatedError, ToolCallError

TICKET_TOOLS = {"classify", "escalate", "get_observation", "resolve", "respond", "search_knowledge_base", "select_ticket", "submit"}


def with_user(url, user="csenv"):
    return url.replace("//", f"//{user}@", 1)


@pytest.fixture
def connect(request):
    def connect(url, name="env", **options):
        client = OpenReward(base_url=url, **options)
        request.addfinalizer(client.close)
        return client.environments.get(name)

    return connect


@pytest.mark.parametrize(("server", "task", "tools"), [("ticket", "ticket-resolve", TICKET_TOOLS), ("workflow", "refund", {"check_order_status", "respond_user"}), ("front", "ticket-resolve", TICKET_TOOLS)])
def test_lists_of_splits_tasks_and_tools(server, task, tools, request, connect):
    env = connect(with_user(request.getfixturevalue(server).url))
    assert env.list_splits()[:2] == ["train", "validation"]
    tasks, own = env.list_tasks("train"), connect(with_user(request.getfixturevalue(server).url), task).list_tasks("train")
    assert env.num_tasks("train") == len(tasks) > len(own) > 0 and {one.task_spec["task"] for one in own} == {task}
    assert env.get_task("train", 3).task_spec == tasks[3].task_spec
    assert [one.task_spec for one in env.get_task_range("train", -2)] == [one.task_spec for one in tasks[-2:]]
    assert {tool.name for tool in env.list_tools()} >= tools and env.list_tools("openai")[0]["parameters"]
    assert not env.supports_score_group() and env.terminal_tool() is None


@pytest.mark.parametrize("server", ["ticket", "front"])
def test_episode_by_split_and_index(server, request, connect):
    env = connect(with_user(request.getfixturevalue(server).url), "csenv/ticket-resolve")
    prompts = []
    for _ in range(2):
        with env.session(split="train", index=2) as session:
            prompts.append(session.get_prompt()[0].text)
            assert session.get_messages("openai") == [{"role": "user", "content": prompts[-1]}]
            assert {tool.name for tool in session.list_tools()} == TICKET_TOOLS
            first = session.call_tool("classify", {"category": "billing", "priority": None})
            assert (first.reward, first.finished) == (0.0, False) and "conversation_history" in first.blocks[0].text
            assert session.call_tool("get_observation").reward is None
            for name, arguments, reason in (("juggle", {}, "not_found"), ("classify", {"category": "sports"}, "input_validation")):
                with pytest.raises(ToolCallError) as raised:
                    session.call_tool(name, arguments)
                assert raised.value.reason == reason
            last = session.call_tool("resolve", {"message": "Hello, thank you for your message."})
            assert last.finished and last.reward == pytest.approx(last.metadata["episode_score"])
            with pytest.raises(ToolCallError, match="episode is over"):
                session.call_tool("respond", {"message": "Hello again."})
    assert prompts[0] == prompts[1], "a task is one instance"


def test_task_with_options(ticket, connect):
    env = connect(with_user(ticket.url))
    task = env.get_task("train", 0)
    task.task_spec = {**task.task_spec, "scenario": "B07", "seed": 7, "task": "ticket-resolve", "invalid_action_penalty": 0.25}
    with env.session(task=task) as session:
        assert ticket.http("GET", "/state", headers={"X-Session-Id": session.sid})[1]["seed"] == 7
        wrong = session.call_tool("classify", {"category": "sports"})
        assert (wrong.reward, wrong.finished) == (-0.25, False) and "billing" in wrong.blocks[0].text


def test_workflow_is_played_to_its_end(workflow, connect):
    with connect(with_user(workflow.url), "order-inquiry").session(split="train", index=0) as session:
        assert not session.call_tool("check_order_status", {}).finished
        last = session.call_tool("respond_user", {"message": "We look into it."})
        assert last.finished and last.metadata["outcome"] == "scored"


def test_token_by_api_key_or_in_the_url(token, token_headers, connect, monkeypatch):
    value = token_headers["Authorization"].removeprefix("Bearer ")
    assert connect(with_user(token.url, f"csenv:{value}")).num_tasks("train") > 0
    monkeypatch.setenv("OPENREWARD_SESSION_URL", token.url)
    assert connect(token.url, api_key=value).num_tasks("train") > 0
    with pytest.raises(Exception, match="(?i)authentication"):
        connect(token.url, api_key="another").num_tasks("train")
    basic = {"Authorization": "Basic " + base64.b64encode(f"csenv:{value}".encode()).decode()}
    assert token.http("POST", "/num_tasks", {"split": "train"}, basic)[0] == 200


def test_names_of_no_environment_are_refused(ticket, connect):
    with pytest.raises(Exception, match="unknown environment 'ticket-resolv'.*ticket-resolve"):
        connect(with_user(ticket.url), "ticket-resolv").num_tasks("train")


def test_slots_are_limited_and_given_back(small, connect):
    env = connect(with_user(small.url), "ticket-resolve")
    for index in range(5):
        with env.session(split="train", index=index) as session:
            assert session.get_prompt() and small.sessions() == 1
    assert env.num_tasks("train") > 0 and small.sessions() == 0


def test_session_that_was_ended_raises(ticket, connect):
    with connect(with_user(ticket.url)).session(split="train", index=0) as session:
        ticket.http("POST", "/delete", {}, {"X-Session-Id": session.sid})
        with pytest.raises(SessionTerminatedError):
            session.call_tool("get_observation")


def test_sessions_on_three_replicas_behind_a_service_async(front, replicas):
    async def one(env, index):
        async with env.session(split="train", index=index) as session:
            await session.call_tool("classify", {"category": "billing"})
            return (await session.call_tool("resolve", {"message": "Hello, thank you for your message."})).reward

    async def play():
        async with AsyncOpenReward(base_url=with_user(front.url)).environments as environments:
            env = environments.get("ticket-resolve")
            return await asyncio.gather(*(one(env, index % 3) for index in range(12)))

    rewards = asyncio.run(play())
    assert rewards == rewards[:3] * 4
    for replica in replicas:
        replica.wait_for_sessions(0)
