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


def test_rows_and_evaluations_as_agilerl_sends_them(ticket):
    """AgileRL's RemoteEnvClient reads the size of the data set from the state, and resets to rows of it, or in an evaluation of the held-out split."""
    train, held_out = (ticket.http("POST", "/ticket/tasks", {"split": split})[1]["tasks"] for split in ("train", "validation"))
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        size = env.state()["dataset_size"]
        assert size == len(train)
        for row, options, task in ((0, {}, train[0]), (size - 1, {}, train[-1]), (5, {"evaluation": True}, held_out[5]), (len(held_out), {"evaluation": True}, held_out[0])):
            first = env.reset(seed=3, row_index=row, **options)
            assert first.observation["task"] == task["task"]
            again = env.reset(seed=3, task=task["task"], scenario=task["scenario"])
            assert again.observation == first.observation
        with pytest.raises(RuntimeError, match="row_index should be less than"):
            env.reset(row_index=size)


@pytest.mark.parametrize("mistakes", [1, 3])
def test_penalty_of_invalid_actions_changes_no_score(ticket, workflow, mistakes):
    for server, task, wrong, last in (
        (ticket, "ticket-resolve", {"action_type": "juggle", "n": 1}, {"action_type": "resolve", "message": "Hello, we look into it."}),
        (workflow, "refund", {"action_type": "respond_user", "payload": {"n": 1}}, {"action_type": "respond_user", "payload": {"message": "We look into it."}}),
    ):
        metadata = []
        for penalty in (None, 0.25):
            with GenericEnvClient(base_url=server.url).sync() as env:
                env.reset(seed=7, task=task, invalid_action_penalty=penalty)
                for _ in range(mistakes):
                    if penalty is None:
                        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
                            env.step(wrong)
                        continue
                    answer = env.step(wrong)
                    assert (answer.reward, answer.done) == (-penalty, False)
                    assert answer.observation["feedback"].startswith("invalid action: ") and answer.observation["errors"][0]["msg"]
                ended = env.step(last)
                assert ended.done
                metadata.append(ended.metadata)
        assert metadata[0] == metadata[1]


def test_fifth_invalid_action_ends_an_episode_with_a_penalty(ticket):
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        env.reset(seed=7, task="ticket-resolve", invalid_action_penalty=0.1)
        rewards = [(answer := env.step({"action_type": "juggle"})).reward for _ in range(5)]
        assert rewards[:4] == [-0.1] * 4 and answer.done and answer.metadata["outcome"] == "failed"
