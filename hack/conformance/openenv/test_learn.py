"""The trainer of examples/learn: it learns from a server's rewards, and a run gets its episodes."""

import asyncio
import pathlib
import sys
import uuid

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "learn"
UPDATES = 8


def test_policy_learns_and_its_run_gets_the_episodes(ticket, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(EXAMPLE), *sys.path])
    import learn  # noqa: PLC0415
    from play import Server  # noqa: PLC0415

    run = f"learn-{uuid.uuid4().hex[:8]}"

    async def play():
        async with Server(ticket.url) as server:
            trainer = learn.Trainer(server, "ticket-classify", seed=1, run=run)
            tallies = [await trainer.update() for _ in range(UPDATES)]
            return trainer, tallies, await trainer.examine(learn.TRAIN, 96)

    trainer, tallies, (mean, _, episodes) = asyncio.run(play())
    assert episodes == 96 and mean > tallies[0].mean + 0.4, (mean, tallies)
    assert tallies[-1].mean > tallies[0].mean + 0.2, tallies

    collected = ticket.rollouts(run)
    assert trainer.tally.scored == UPDATES * learn.TICKETS * learn.GROUP and trainer.tally.errored == trainer.tally.lost == 0
    assert collected["ledger"] and collected["active"] == collected["dropped"] == 0, "the run gets the training episodes"
    after = ticket.rollouts(run, instance=collected["instance"], ack=collected["segment"])
    assert after["ledger"] is None, "an acknowledged segment isn't returned again"
