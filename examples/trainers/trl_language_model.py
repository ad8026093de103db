"""TRL: GRPO trains a language model to classify tickets: SmolLM2-135M-Instruct on CPU, or the one that --model names."""

import argparse
import json
import re
import tempfile
import time

import torch
from common import report, small_model
from customer_support_env import ToolClient
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

flags = argparse.ArgumentParser(description=__doc__)
flags.add_argument("--steps", type=int, default=5)
flags.add_argument("--samples", type=int, default=1, help="answers to each ticket in the measurements before and after the training")
flags.add_argument("--model", help="a name of the Hugging Face Hub, for a machine with a GPU")
flags.add_argument("--run", help="the run of type External that counts the episodes of the training")
flags.add_argument("--curve", type=argparse.FileType("w"), help="a file for the answers and rewards, as JSON")
options = flags.parse_args()
TRAINED = "B05 B09 G01 G06 S04 S08 T03 T07".split()
HELD_OUT = "B02 B03 B07 B08 G02 G03 G07 G10 S03 S05 S09 S10 T01 T05 T06 T08".split()
EXAMPLES = {
    "When does your shop open?": "general, low", "My parcel must come today!": "shipping, urgent",
    "The app crashes.": "technical, high", "A copy of my bill, please.": "billing, medium",
}  # fmt: skip
LAYERS = 10  # which are trained: the upper ones
steps: list[dict] = []


def prompt(client: ToolClient, scenario: str) -> str:
    subject = json.loads(client.reset(scenario=scenario, seed=0))["subject"]
    return "".join(f"Ticket: {text}\nLabels: {labels}\n\n" for text, labels in EXAMPLES.items()) + f"Ticket: {subject}\nLabels:"


def play(client: ToolClient, scenario: str, answer: str) -> float | None:
    """The reward of an answer's episode, or None if its first two words are no labels, so that the server refuses them."""
    client.reset(scenario=scenario, seed=0)
    client.call("submit", dict(zip(("category", "priority"), re.findall("[a-z]+", answer.lower()))))
    assert client.episode.result() == (client.episode.score or 0)
    return client.episode.result() if client.episode.done else None


def rewards(completions, scenario, **_) -> list[float]:
    played = [play(training, one, answer) for one, answer in zip(scenario, completions)]
    step = {"scenario": scenario[0], "reward": sum(reward or 0 for reward in played) / len(played), "valid": len(played) - played.count(None)}
    steps.append(step | {"answers": completions, "rewards": played, "minutes": round((time.monotonic() - started) / 60, 2)})
    print("step {}: {scenario}, mean reward {reward:.3f}, {valid} of 8 answers are valid actions".format(len(steps), **step), flush=True)
    return [reward or 0.0 for reward in played]


def measure(scenarios: list[str]) -> dict[str, list[float]]:
    """The scores of answers to tickets, sampled as the training samples them. The prompt of a ticket is computed once."""
    scores, n = {}, options.samples
    with ToolClient(task="ticket-classify") as client, torch.no_grad():
        for one in scenarios:
            ids = tokenizer(prompt(client, one), return_tensors="pt")["input_ids"].to(model.device)
            cache = model(ids[:, :-1], use_cache=True).past_key_values
            cache.batch_repeat_interleave(n)
            ids = ids.repeat(n, 1)
            said = model.generate(ids, attention_mask=torch.ones_like(ids), past_key_values=cache, generation_config=trainer.generation_config)
            answers = tokenizer.batch_decode(said[:, ids.shape[1] :], skip_special_tokens=True)
            scores[one] = [play(client, one, answer) or 0.0 for answer in answers]
    return scores


if options.model:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(options.model), AutoTokenizer.from_pretrained(options.model)
else:
    model, tokenizer = small_model()
for part in (model.model.embed_tokens, *model.model.layers[:-LAYERS]):
    part.requires_grad_(False)
with ToolClient(task="ticket-classify", run=options.run) as training, tempfile.TemporaryDirectory() as folder:
    arguments = GRPOConfig(
        output_dir=folder, max_steps=options.steps, per_device_train_batch_size=8, num_generations=8, max_completion_length=4, temperature=0.8,
        learning_rate=1.5e-5, lr_scheduler_type="constant", activation_checkpointing=False, bf16=False, logging_steps=1, save_strategy="no",
        report_to="none", disable_tqdm=True,
    )  # fmt: skip
    data = Dataset.from_list([{"scenario": one, "prompt": prompt(training, one)} for one in TRAINED])
    trainer = GRPOTrainer(model, rewards, arguments, data, processing_class=tokenizer)
    before = {"trained": measure(TRAINED), "held out": measure(HELD_OUT)}
    started = time.monotonic()
    trainer.train()
    after = {"trained": measure(TRAINED), "held out": measure(HELD_OUT)}
logs = [float(log["reward"]) for log in trainer.state.log_history if "reward" in log]
if options.curve:
    json.dump({"before": before, "steps": steps, "after": after, "logs": logs}, options.curve)
assert len(logs) == len(steps) and all(abs(log - step["reward"]) < 1e-6 for log, step in zip(logs, steps)), (logs, steps)
for name in before:
    means = [sum(map(sum, scores.values())) / sum(map(len, scores.values())) for scores in (before[name], after[name])]
    print("{} tickets: mean score {:.3f} before the training, {:.3f} after it".format(name, *means))
report("trl", sum(step["valid"] for step in steps))
