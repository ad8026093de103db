"""Trainers: many synchronous clients in threads, with a group of generations per seed, on one server and on replicas behind a Service; and the collection of their episodes by a run."""

import threading
import uuid

import pytest
from openenv.core.generic_client import GenericEnvClient

CLIENTS, EPISODES, GROUP = 64, 5, 8


def generation(url, client, out):
    """Plays generations one after another: connect, reset with a row of the data set, play, close."""
    for episode in range(EPISODES):
        env = GenericEnvClient(base_url=url).sync()
        try:
            env.connect()
            group = episode * CLIENTS + client // GROUP
            row = {"prompt": [{"role": "user", "content": "Handle this ticket."}], "answer": None}
            first = env.reset(seed=group, episode_id=uuid.uuid4().hex, task="ticket-resolve", **row)
            env.step({"action_type": "classify", "category": "billing", "priority": "high"})
            last = env.step({"action_type": "resolve", "message": f"Hello {first.observation['customer_name']}, we look into it."})
            assert last.done and isinstance(last.reward, float)
            out[client, episode] = (group, first.observation, last.observation["status"], last.metadata["episode_score"])
        finally:
            env.close()


def train(url):
    out, errors = {}, []

    def work(client):
        try:
            generation(url, client, out)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not errors, errors[:3]
    assert len(out) == CLIENTS * EPISODES
    groups = {}
    for group, *seen in out.values():
        assert groups.setdefault(group, seen) == seen, "a group has one task, and the same actions give the same result"
    assert len(groups) == EPISODES * CLIENTS // GROUP


def test_64_clients_in_threads_play_5_episodes_each_with_the_seed_of_their_group(ticket):
    before = ticket.sessions()
    train(ticket.url)
    ticket.wait_for_sessions(before)


def test_64_clients_in_threads_play_on_three_replicas_behind_a_service(front, replicas):
    train(front.url)
    for replica in replicas:
        replica.wait_for_sessions(0)


def test_service_spreads_connections_over_the_replicas(front, replicas):
    sockets = []
    try:
        for i in range(6):
            env = front.socket()
            sockets.append(env)
            env.__enter__().ask("reset", {"seed": i})
        assert [replica.sessions() for replica in replicas] == [2, 2, 2]
    finally:
        for env in sockets:
            env.__exit__(None, None, None)
    for replica in replicas:
        replica.wait_for_sessions(0)




def test_tagged_episodes_are_returned_to_their_run_until_acknowledged(ticket):
    run = f"grpo-{uuid.uuid4().hex[:8]}"
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        for seed in range(3):
            env.reset(seed=seed, task="ticket-classify", run=run)
            while not env.step({"action_type": "classify", "category": "billing", "priority": "high"}).done:
                pass
        env.reset(seed=3, task="ticket-classify", run=run)
        collected = ticket.rollouts(run)
        assert collected["segment"] == 1 and collected["active"] == 1 and collected["dropped"] == 0
        assert collected["ledger"]["payload"] and collected["ledger"]["signature"]
        assert ticket.rollouts(run) == collected, "a segment is returned again until it is acknowledged"
    after = ticket.rollouts(run, instance=collected["instance"], ack=1)
    assert after["ledger"] is None, "an abandoned episode is in no segment"
