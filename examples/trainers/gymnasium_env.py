"""Gymnasium: texts as observations and actions. The checker of Gymnasium passes."""

import json
import warnings

from customer_support_env.gym import SupportGymEnv
from gymnasium.utils.env_checker import check_env
from common import Scripted, report

env = SupportGymEnv(task="ticket-resolve")
warnings.simplefilter("error")
check_env(env, skip_render_check=True)

for seed in range(4):
    task, info = env.reset(seed=seed)
    policy, done, reward = Scripted(task), False, 0.0
    while not done:
        tool, arguments = policy.act()
        observation, reward, done, truncated, info = env.step(json.dumps({"tool": tool, "arguments": arguments}))
    assert reward == info["episode_score"], (reward, info)
env.close()
report("gymnasium", 4)
