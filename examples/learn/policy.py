"""A network with one hidden layer that chooses a category and a priority, and its training by GRPO."""

import numpy as np

from features import BUCKETS

CATEGORIES = ("billing", "shipping", "technical", "general")
PRIORITIES = ("low", "medium", "high", "urgent")
HEADS = (slice(0, 4), slice(4, 8))  # of the outputs

HIDDEN = 96
RATE, DECAY = 2e-3, 1e-4  # of Adam, and of the weights
BETA1, BETA2, EPSILON = 0.9, 0.99, 1e-8
CLIP, ENTROPY, EPOCHS = 0.2, 0.01, 3


def action(labels):
    """Returns the action that sets both labels."""
    return {"action_type": "classify", "category": CATEGORIES[labels[0]], "priority": PRIORITIES[labels[1]]}


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def advantages(rewards):
    """Returns how much better than its group each reward is, in standard deviations of the group."""
    rewards = np.asarray(rewards, np.float32)
    return (rewards - rewards.mean()) / (rewards.std() + 1e-4)


class Adam:
    """Adam (arXiv:1412.6980) with decoupled decay (arXiv:1711.05101). Rows without a gradient keep their values."""

    def __init__(self, value):
        self.value, self.first, self.second = value, np.zeros_like(value), np.zeros_like(value)
        self.steps = np.zeros((len(value), *[1] * (value.ndim - 1)), np.float32)

    def step(self, gradient, rows=slice(None)):
        self.steps[rows] += 1
        first = self.first[rows] = BETA1 * self.first[rows] + (1 - BETA1) * gradient
        second = self.second[rows] = BETA2 * self.second[rows] + (1 - BETA2) * gradient**2
        first = first / (1 - BETA1 ** self.steps[rows])
        second = second / (1 - BETA2 ** self.steps[rows])
        self.value[rows] -= RATE * (first / (np.sqrt(second) + EPSILON) + DECAY * self.value[rows])


class Policy:
    def __init__(self, seed):
        random = np.random.default_rng([seed, 1])
        # With these zeros every label is equally probable at first, and a feature that was never seen has no effect.
        self.words = Adam(np.zeros((BUCKETS, HIDDEN), np.float32))
        self.bias = Adam(np.zeros(HIDDEN, np.float32))
        self.heads = Adam((random.normal(0, 1, (HIDDEN + 1, 8)) / np.sqrt(HIDDEN)).astype(np.float32))
        self.heads.value[-1] = 0

    def log_probabilities(self, ids):
        """Returns those of the four categories and the four priorities for the features of one ticket."""
        hidden = np.tanh(self.words.value[ids].sum(axis=0) / np.sqrt(len(ids)) + self.bias.value)
        logits = hidden @ self.heads.value[:-1] + self.heads.value[-1]
        return np.concatenate([log_softmax(logits[head]) for head in HEADS])

    def update(self, groups):
        """Improves the policy by groups of episodes: features, labels (n, 2), their log-probability (n) and advantages (n)."""
        groups = [g for g in groups if np.any(g.advantages)]
        if not groups:
            return
        rows, inputs = dense([g.ids for g in groups])
        owner = np.repeat(np.arange(len(groups)), [len(g.labels) for g in groups])
        labels = np.concatenate([g.labels for g in groups])
        before = np.concatenate([g.log_probability for g in groups])
        better = np.concatenate([g.advantages for g in groups])
        for _ in range(EPOCHS):
            self.improve(rows, inputs, owner, labels, before, better)

    def improve(self, rows, inputs, owner, labels, before, better):
        hidden = np.tanh(inputs @ self.words.value[rows] + self.bias.value)
        logits = hidden @ self.heads.value[:-1] + self.heads.value[-1]
        logs = np.concatenate([log_softmax(logits[:, head]) for head in HEADS], axis=1)
        chosen = logs[owner, labels[:, 0]] + logs[owner, 4 + labels[:, 1]]
        ratio = np.exp(chosen - before)
        # The clipped objective of PPO (arXiv:1707.06347) has no gradient beyond the limit.
        within = np.where(better > 0, ratio < 1 + CLIP, ratio > 1 - CLIP)
        weight = -ratio * better * within / len(better)

        probabilities, outer = np.exp(logs), np.zeros_like(logs)
        for k, head in enumerate(HEADS):
            np.add.at(outer, (owner, head.start + labels[:, k]), weight)
            outer[:, head] -= np.bincount(owner, weight, len(logs))[:, None] * probabilities[:, head]
            p, log = probabilities[:, head], logs[:, head]
            outer[:, head] += ENTROPY / len(logs) * p * (log - (p * log).sum(axis=1, keepdims=True))
        inner = outer @ self.heads.value[:-1].T * (1 - hidden**2)
        self.heads.step(np.concatenate([hidden.T @ outer, outer.sum(axis=0, keepdims=True)]))
        self.words.step(inputs.T @ inner, rows)
        self.bias.step(inner.sum(axis=0))


def dense(ids):
    """Returns the features that occur, and a matrix with a row for each ticket and a column for each of them."""
    rows, columns = np.unique(np.concatenate(ids), return_inverse=True)
    sizes = [len(i) for i in ids]
    matrix = np.zeros((len(ids), len(rows)), np.float32)
    matrix[np.repeat(np.arange(len(ids)), sizes), columns] = np.repeat(1 / np.sqrt(sizes), sizes)
    return rows, matrix
