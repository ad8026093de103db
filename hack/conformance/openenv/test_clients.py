"""The clients of trainers and scripts: generic, typed, and found by AutoEnv."""

import asyncio
import uuid

import pytest
from customer_support_env import CSRAction, CSREnv, CustomerSupportAction, CustomerSupportEnv
from openenv.auto import AutoEnv
from openenv.core.generic_client import GenericAction, GenericEnvClient


def test_generic_client_plays_every_task_to_the_end_async(server_of_task, task, episodes):
    async def play():
        async with GenericEnvClient(base_url=server_of_task.url) as env:
            result = await env.reset(seed=7, task=task)
            assert result.done is False and result.observation["task"] == task
            steps = 0
            for action in episodes[task]:
                result = await env.step(action)
                steps += 1
                assert isinstance(result.reward, (int, float)) and (await env.state())["step_count"] == steps
                if result.done:
                    return result
            raise AssertionError("the episode did not end")

    last = asyncio.run(play())
    assert 0 <= last.metadata["episode_score"] <= 1 and last.metadata["outcome"] in ("scored", "failed")
    assert last.observation["metadata"] == last.metadata, "old and new clients read metadata in different places"


def test_generic_client_plays_every_task_to_the_end_sync(server_of_task, task, episodes):
    with GenericEnvClient(base_url=server_of_task.url).sync() as env:
        for seed in (7, 8):
            result = env.reset(seed=seed, task=task)
            total = 0
            for action in episodes[task]:
                result = env.step(GenericAction(**action))
                total += result.reward
                if result.done:
                    break
            assert result.done and max(0, total) == pytest.approx(result.metadata["episode_score"]), "rewards add up to the score"
            assert env.state()["seed"] == seed


def test_episode_id_is_used_as_given(ticket):
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        given = uuid.uuid4().hex
        env.reset(seed=1, episode_id=given)
        assert env.state()["episode_id"] == given
        env.reset(seed=1)
        assert env.state()["episode_id"] not in (given, None, "")


def test_text_in_any_script_arrives_unchanged(ticket):
    text = 'Zoë, 你好, "ça va?" \u2028 \U0001f600 \\ </script>\t\n'
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        env.reset(seed=7, task="ticket-resolve")
        assert env.step({"action_type": "respond", "message": text}).observation["conversation_history"][-1]["content"] == text


def test_unknown_reset_options_are_ignored(ticket):
    """Trainers pass all columns of a data set's row."""
    row = {"prompt": [{"role": "user", "content": "Handle this ticket."}], "answer": None, "difficulty_bin": 3, "weights": [0.5, 1e-9], "images": {}}
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        assert env.reset(seed=7, task="ticket-resolve", **row).observation == env.reset(seed=7, task="ticket-resolve").observation


def test_null_fields_of_an_action_count_as_absent(ticket):
    """Typed clients of third parties send every field of their model."""
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        env.reset(seed=7, task="ticket-resolve")
        full = {"action_type": "respond", "message": "Hello", "category": None, "priority": None, "team": None, "reason": None, "query": None, "metadata": {}}
        assert env.step(full).observation["conversation_history"][-1]["content"] == "Hello"


@pytest.mark.parametrize("action", [{"action_type": "dance"}, {}, {"action_type": "classify", "category": "sports"}, {"action_type": "classify", "mood": "bad"}, {"action_type": 7}])
def test_action_outside_the_schema_is_a_validation_error_and_the_session_continues(ticket, action):
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        env.reset(seed=7, task="ticket-resolve")
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            env.step(action)
        assert env.state()["step_count"] == 0
        assert not env.step({"action_type": "classify", "category": "billing"}).done


def test_step_before_reset_is_an_execution_error_and_the_session_continues(ticket):
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        with pytest.raises(RuntimeError, match="EXECUTION_ERROR"):
            env.step({"action_type": "classify", "category": "billing"})
        assert env.state()["step_count"] == 0
        env.reset(seed=7)


def test_step_after_the_end_is_answered_as_done(ticket):
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        env.reset(seed=7, task="ticket-classify")
        action = {"action_type": "classify", "category": "billing", "priority": "high"}
        assert env.step(action).done
        again = env.step(action)
        assert again.done and again.reward == 0


def test_client_continues_in_a_new_session_after_its_own_timeout(ticket):
    async def play():
        async with GenericEnvClient(base_url=ticket.url) as env:
            await env.reset(seed=1)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(env.step({"action_type": "search_knowledge_base", "query": "refund"}), timeout=0)
            return await env.reset(seed=7, task="ticket-resolve"), await env.state()

    result, state = asyncio.run(play())
    assert result.observation["task"] == "ticket-resolve" and state["seed"] == 7 and state["step_count"] == 0


def test_new_session_is_separate_async(ticket):
    async def play():
        async with GenericEnvClient(base_url=ticket.url) as env:
            await env.reset(seed=1, episode_id="first")
            other = await env.new_session()
            await other.reset(seed=2, episode_id="second")
            await other.step({"action_type": "classify", "category": "billing"})
            return await env.state(), await other.state()

    first, second = asyncio.run(play())
    assert (first["episode_id"], first["step_count"], second["episode_id"], second["step_count"]) == ("first", 0, "second", 1)


def test_new_session_is_separate_sync_and_ends_with_its_parent(ticket):
    before = ticket.sessions()
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        env.reset(seed=1)
        others = [env.new_session() for _ in range(3)]
        for i, other in enumerate(others):
            other.reset(seed=i)
        ticket.wait_for_sessions(before + 4)
    ticket.wait_for_sessions(before)


def test_typed_ticket_client_plays_to_the_end(ticket):
    with CustomerSupportEnv(base_url=ticket.url).sync() as env:
        first = env.reset(seed=7, task="ticket-resolve")
        assert first.observation.subject and first.observation.metadata == {}
        assert env.step(CustomerSupportAction.search("refund")).observation.knowledge_base is not None
        assert env.step(CustomerSupportAction.classify(category="billing")).reward is not None
        last = env.step(CustomerSupportAction.escalate("finance", "above the limit"))
        assert last.done and last.observation.status == "escalated" and last.metadata["outcome"] == "scored"


def test_typed_workflow_client_plays_to_the_end(workflow):
    async def play():
        async with CSREnv(base_url=workflow.url) as env:
            result = await env.reset(seed=7, task="refund")
            while not result.done:
                result = await env.step(CSRAction(action_type="respond_user", payload={"message": "We look into it."}))
            return result, await env.state()

    last, state = asyncio.run(play())
    assert state.done and last.metadata["episode_score"] >= 0


def test_auto_env_without_a_package_gives_a_generic_client(ticket):
    env = AutoEnv.from_env("somebody/customer-support", base_url=ticket.url, skip_install=True)
    assert type(env) is GenericEnvClient
    with env.sync() as playing:
        assert playing.reset(seed=7).observation["ticket_id"]


def test_auto_env_finds_the_installed_typed_client(ticket):
    env = AutoEnv.from_env("customer-support", base_url=ticket.url)
    assert type(env).__name__ == "CustomerSupportEnv"
    with env.sync() as playing:
        assert playing.reset(seed=7, task="ticket-resolve").observation.subject


def test_trailing_slash_and_websocket_scheme_of_the_base_url(ticket):
    for url in (ticket.url + "/", ticket.url.replace("http", "ws", 1)):
        with GenericEnvClient(base_url=url).sync() as env:
            assert env.reset(seed=7).observation["ticket_id"]
