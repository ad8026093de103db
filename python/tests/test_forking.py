"""Forks and checkpoints on the server in CSENV_TICKET_URL."""

import asyncio
import os

import pytest
from customer_support_env import AsyncToolClient, CustomerSupportAction, CustomerSupportEnv, ToolClient, checkpoint, fork, restore

URL = os.environ.get("CSENV_TICKET_URL", "")
pytestmark = pytest.mark.skipif(not URL, reason="CSENV_TICKET_URL names no server")

SEARCH = CustomerSupportAction.search("refund")
END = CustomerSupportAction.resolve("I have refunded the second charge.")


def test_forks_have_the_same_future():
    with CustomerSupportEnv(base_url=URL).sync() as env:
        env.reset(seed=7, task="ticket-resolve")
        env.step(SEARCH)
        copies = fork(env, 2)
        ends = [one.step(END) for one in [*copies, env]]
        for one in copies:
            one.close()
    assert all(end.done and end.metadata["forked"] for end in ends)
    assert ends[0].observation == ends[1].observation == ends[2].observation


def test_checkpoint_continues_in_another_session():
    with CustomerSupportEnv(base_url=URL).sync() as env, CustomerSupportEnv(base_url=URL).sync() as other:
        env.reset(seed=7, task="ticket-resolve")
        seen = env.step(SEARCH)
        saved = checkpoint(env)
        assert restore(other, saved).observation.knowledge_base == seen.observation.knowledge_base
        assert other.step(END).reward == env.step(END).reward


def test_refusals_say_why():
    with CustomerSupportEnv(base_url=URL).sync() as env:
        with pytest.raises(RuntimeError, match="send reset first"):
            fork(env)
        with pytest.raises(RuntimeError, match="unchanged|changed"):
            restore(env, "AAAA")


def test_tools_of_a_fork():
    with ToolClient(URL, task="ticket-resolve") as client:
        client.reset(seed=7)
        (copy,) = client.fork()
        with copy:
            assert copy.call("classify", {"category": "billing"}) == client.call("classify", {"category": "billing"})
            copy.call("resolve", {"message": "Hello."})
            assert copy.episode.done and not client.episode.done


def test_async_tools_of_a_fork():
    async def play():
        async with AsyncToolClient(URL, task="ticket-resolve") as client:
            await client.reset(seed=7)
            copies = await client.fork(3)
            texts = await asyncio.gather(*[one.call("search_knowledge_base", {"query": "refund"}) for one in copies])
            for one in copies:
                await one.close()
            return texts

    assert len(set(asyncio.run(play()))) == 1
