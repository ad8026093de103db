"""TRL: GRPO trains a language model to classify tickets: SmolLM2-135M-Instruct on CPU, or the one that --model names."""

import argparse
import json
import re
import tempfile

import torch
from common import report, small_model
from customer_support_env import ToolClient
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

GROUPS, GENERATIONS = 1, 8  # of a step: tickets, and answers to each
ASK = """Answer with JSON alone: a category (billing, shipping, technical, general) and a priority (low, medium, high, urgent)."""
EXAMPLE = [
    {"role": "system", "content": ASK},
    {"role": "user", "content": "Opening hours\nHello, when does your shop open on Saturdays?"},
    {"role": "assistant", "content": '{"category": "general", "priority": "low"}'},
]

flags = argparse.ArgumentParser(description=__doc__)
flags.add_argument("--steps", type=int, default=5)
flags.add_argument("--model", help="a name of the Hugging Face Hub, for a machine with a GPU")
flags.add_argument("--run", help="the run of type External that counts the episodes")
flags.add_argument("--curve", type=argparse.FileType("w"), help="a file for the figures of each step, as JSON")
options = flags.parse_args()
client, steps = ToolClient(task="ticket-classify", split="train", run=options.run), []


def row(seed: int) -> dict:
    ticket = json.loads(client.reset(seed=seed))
    return {"seed": seed, "prompt": [*EXAMPLE, {"role": "user", "content": f"{ticket['subject']}\n{ticket['description']}"}]}


def play(seed: int, answer: str) -> float | None:
    """The reward of an answer's episode, or None if the answer is no action or the server refuses it."""
    client.reset(seed=seed)
    try:
        client.call("submit", json.loads(re.search(r"\{.*?\}|$", answer, re.DOTALL)[0]))
    except ValueError:
        return None
    assert client.episode.result() == (client.episode.score or 0)
    return client.episode.result() if client.episode.done else None


def rewards(completions, seed, **_) -> list[float]:
    played = [play(one, answer[0]["content"]) for one, answer in zip(seed, completions)]
    mean, valid = sum(reward or 0 for reward in played) / len(played), len(played) - played.count(None)
    steps.append({"reward": mean, "valid": valid, "answers": len(played)})
    print(f"step {len(steps)}: mean reward {mean:.3f}, valid actions {valid / len(played):.0%}", flush=True)
    return [reward or 0.0 for reward in played]


model, tokenizer = (options.model, None) if options.model else small_model()
with tempfile.TemporaryDirectory() as folder:
    arguments = GRPOConfig(
        output_dir=folder, max_steps=options.steps, per_device_train_batch_size=GROUPS * GENERATIONS, num_generations=GENERATIONS,
        max_completion_length=24, temperature=0.7, learning_rate=1e-5, lr_scheduler_type="constant", activation_checkpointing=False, bf16=False,
        use_cpu=not torch.cuda.is_available(), logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True,
    )  # fmt: skip
    data = Dataset.from_list([row(seed) for seed in range(options.steps * GROUPS)])
    trainer = GRPOTrainer(model=model, processing_class=tokenizer, args=arguments, train_dataset=data, reward_funcs=rewards)
    trainer.train()
client.close()
logs = [float(log["reward"]) for log in trainer.state.log_history if "reward" in log]
assert len(logs) == len(steps) and all(abs(log - step["reward"]) < 1e-6 for log, step in zip(logs, steps)), (logs, steps)
if options.curve:
    json.dump(steps, options.curve)
report("trl", sum(step["valid"] for step in steps))
