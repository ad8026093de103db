"""TRL: GRPO trains a language model to classify tickets: SmolLM2-135M-Instruct on CPU, or the one that --model names."""

import argparse
import json
import tempfile

from common import report, small_model
from customer_support_env import ToolClient
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

flags = argparse.ArgumentParser(description=__doc__)
flags.add_argument("--steps", type=int, default=5)
flags.add_argument("--model", help="a name of the Hugging Face Hub, for a machine with a GPU")
flags.add_argument("--run", help="the run of type External that counts the episodes")
flags.add_argument("--curve", type=argparse.FileType("w"), help="a file for the figures of each step, as JSON")
options = flags.parse_args()
client, steps = ToolClient(task="ticket-classify", split="train", run=options.run), []
ASK = "Answer with JSON alone: a category (billing, shipping, technical, general) and a priority (low, medium, high, urgent)."
EXAMPLE = ["Opening hours\nHello, when does your shop open on Saturdays?\n\nThe labels as JSON:", '{"category": "general", "priority": "low"}']


def row(seed: int) -> dict:
    ticket = json.loads(client.reset(seed=seed))
    turns = [ASK, *EXAMPLE, f"{ticket['subject']}\n{ticket['description']}\n\nThe labels as JSON:"]
    return {"seed": seed, "prompt": [{"role": role, "content": turn} for role, turn in zip(("system", "user", "assistant", "user"), turns)]}


def play(seed: int, answer: str) -> float | None:
    """The reward of an answer's episode, or None if the answer is no action or the server refuses it."""
    client.reset(seed=seed)
    try:
        client.call("submit", json.loads(answer[answer.find("{") : answer.find("}") + 1]))
    except ValueError:
        return None
    assert client.episode.result() == (client.episode.score or 0)
    return client.episode.result() if client.episode.done else None


def rewards(completions, seed, **_) -> list[float]:
    played = [play(one, answer[0]["content"]) for one, answer in zip(seed, completions)]
    steps.append({"reward": sum(reward or 0 for reward in played) / len(played), "valid": len(played) - played.count(None), "answers": len(played)})
    print("step {}: mean reward {reward:.3f}, {valid} of {answers} answers are valid actions".format(len(steps), **steps[-1]), flush=True)
    return [reward or 0.0 for reward in played]


model, tokenizer = (options.model, None) if options.model else small_model()
with client, tempfile.TemporaryDirectory() as folder:
    arguments = GRPOConfig(
        output_dir=folder, max_steps=options.steps, per_device_train_batch_size=8, num_generations=8, max_completion_length=24, temperature=0.5,
        learning_rate=1e-5, lr_scheduler_type="constant", activation_checkpointing=False, bf16=False, logging_steps=1, save_strategy="no",
        report_to="none", disable_tqdm=True,
    )  # fmt: skip
    trainer = GRPOTrainer(model, rewards, arguments, Dataset.from_list([row(seed) for seed in range(options.steps)]), processing_class=tokenizer)
    trainer.train()
logs = [float(log["reward"]) for log in trainer.state.log_history if "reward" in log]
assert len(logs) == len(steps) and all(abs(log - step["reward"]) < 1e-6 for log, step in zip(logs, steps)), (logs, steps)
if options.curve:
    json.dump(steps, options.curve)
report("trl", sum(step["valid"] for step in steps))
