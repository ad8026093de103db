"""TRL: OpenRewardSpec(URL) takes tasks, tools and rewards from the server's ORS routes. No other code is needed."""

import tempfile

from common import URL, report, talker
from trl import GRPOConfig, GRPOTrainer
from trl.experimental.openreward import OpenRewardSpec

with tempfile.TemporaryDirectory() as folder:
    model, tokenizer = talker(folder)
    arguments = GRPOConfig(
        output_dir=folder, max_steps=2, per_device_train_batch_size=4, num_generations=4, max_completion_length=8192,
        max_tool_calling_iterations=4, use_cpu=True, bf16=False, logging_steps=1, report_to="none", disable_tqdm=True,
        reward_weights=[1, 0],  # the scores are only shown
    )  # fmt: skip
    spec = OpenRewardSpec(URL.replace("://", "://csenv@"), env_name="ticket-resolve", num_tasks=4)

    def score(environments, **_):
        """The server's scores, beside the last rewards, which the specification takes."""
        return [(one.metadata[-1] or {}).get("episode_score") for one in environments]

    trainer = GRPOTrainer(
        model=model, processing_class=tokenizer, args=arguments, train_dataset=spec.train_dataset,
        environment_factory=spec.environment_factory, reward_funcs=[spec.reward_funcs, score],
    )  # fmt: skip
    trainer.train()
    for one in trainer.environments:
        one._close()  # TRL leaves its sessions open; the server ends such a one after 15 minutes
logs = [log for log in trainer.state.log_history if "reward" in log]
assert len(logs) == 2 and any(float(log["grad_norm"]) > 0 for log in logs), logs
assert all(log["rewards/_outcome_only_reward_func/mean"] == log["rewards/score/mean"] for log in logs), logs
report("trl", 8)
