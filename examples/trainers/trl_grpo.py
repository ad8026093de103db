"""TRL: GRPOTrainer(environment_factory=…) with the class of the package, for two optimiser steps of a tiny model."""

import tempfile

from common import report, talker
from customer_support_env.trl import environment
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

with tempfile.TemporaryDirectory() as folder:
    # In your training: model="Qwen/Qwen3-4B", without processing_class.
    model, tokenizer = talker(folder)
    rows = [{"prompt": [{"role": "user", "content": "Handle this ticket."}], "seed": seed, "note": None} for seed in range(4)]
    arguments = GRPOConfig(
        output_dir=folder, max_steps=2, per_device_train_batch_size=4, num_generations=4, max_completion_length=4096,
        max_tool_calling_iterations=4, use_cpu=True, bf16=False, logging_steps=1, report_to="none", disable_tqdm=True,
        reward_weights=[0],  # the scores are only shown
    )  # fmt: skip

    def score(environments, **_):
        """The server's scores, beside the rewards of the environments, which get_reward returns."""
        return [one.episode.score for one in environments]

    trainer = GRPOTrainer(
        model=model, processing_class=tokenizer, args=arguments, train_dataset=Dataset.from_list(rows), reward_funcs=[score],
        environment_factory=environment(task="ticket-resolve"),
    )  # fmt: skip
    trainer.train()
logs = [log for log in trainer.state.log_history if "reward" in log]
assert len(logs) == 2 and any(float(log["grad_norm"]) > 0 for log in logs), logs
assert all(log["rewards/CustomerSupport/mean"] == log["rewards/score/mean"] for log in logs), logs
report("trl", 8)
