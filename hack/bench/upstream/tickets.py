"""The official OpenEnv server with csenv's tickets and the rules of its task ticket-classify.

The file of the variable CSENV_TICKETS has the tickets, which the benchmark exports: for each seed
what the customer wrote, the articles that a search can find, and the right labels. An episode is one
ticket. A search returns up to three articles. The episode ends when the category and the priority
are set, with `submit`, or after four steps; the reward of its last step is the score.

The environment has async methods, because the server calls those without changing threads.
"""

import json
import os
import re
from typing import Any, Literal, Optional
from uuid import uuid4

from launch import serve
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

MAX_STEPS = 4
MAX_FOUND = 3
MIN_TERM = 3  # bytes
ACTIONS = ["classify", "search_knowledge_base", "submit"]
# Points of the labels.
CATEGORY, PRIORITY = 200, 100

Category = Literal["billing", "shipping", "technical", "general"]
Priority = Literal["low", "medium", "high", "urgent"]


def words(text):
    """Returns the words of a text in lower case."""
    return re.findall(r"[^\W_]+", text.lower())


class Article:
    """An article, with the weights of its words: 1 in the body, 2 in the title, 3 in both."""

    def __init__(self, fields):
        self.fields = fields
        self.weights = dict.fromkeys(words(fields["body"]), 1)
        for word in words(fields["title"]):
            self.weights[word] = self.weights.get(word, 0) | 2


def load(path):
    """Reads the tickets, in the order of their seeds."""
    with open(path, encoding="utf-8") as file:
        exported = json.load(file)
    articles = [Article(fields) for fields in exported["articles"]]
    for ticket in exported["tickets"]:
        ticket["articles"] = [articles[i] for i in ticket["articles"]]
    return exported["tickets"]


def find(articles, query):
    """Returns the articles with the most words of the query. Equal ones keep their order."""
    terms = {w for w in words(query) if len(w.encode()) >= MIN_TERM}
    hits = [(sum(a.weights.get(t, 0) for t in terms), a) for a in articles]
    hits = sorted((hit for hit in hits if hit[0] > 0), key=lambda hit: -hit[0])
    return [a.fields for _, a in hits[:MAX_FOUND]]


def points(offered, got, gold, alternates):
    """Returns the points of a label: all for the right one, a part for an alternate."""
    if got is None:
        return 0
    if got == gold:
        return offered
    return offered * alternates.get(got, 0) // 1000


class TicketAction(Action):
    action_type: Literal["classify", "search_knowledge_base", "submit"]
    category: Optional[Category] = None
    priority: Optional[Priority] = None
    query: Optional[str] = None


class TicketObservation(Observation):
    task: str
    ticket_id: str
    now: str
    customer_name: str
    company: str
    customer_since: str
    account_level: str
    language: str
    subject: str
    description: str
    attachments: list[dict[str, str]]
    conversation_history: list[dict[str, str]]
    status: str
    score: Optional[float]
    step: int
    max_steps: int
    allowed_actions: list[str]
    feedback: str
    knowledge_base: list[dict[str, str]]


class TicketState(State):
    ticket_id: Optional[str] = None


class TicketEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = TicketState(episode_id=str(uuid4()), step_count=0)
        self._begin(0)

    def _begin(self, seed):
        self.ticket = TICKETS[seed % len(TICKETS)]
        self.category = self.priority = self.reward = None
        self.status = "open"
        self.found = []
        self.done = False

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = TicketState(episode_id=episode_id or str(uuid4()), step_count=0)
        self._begin(seed or 0)
        return self._observe("A ticket has come in.")

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        return self.reset(seed=seed, episode_id=episode_id, **kwargs)

    def step(self, action, timeout_s=None, **kwargs):
        if self.done:
            return self._observe("The episode is over: send reset to begin the next one.")
        self._state.step_count += 1
        self.status = "in_progress"
        self.found = []
        if action.action_type == "search_knowledge_base":
            self.found = find(self.ticket["articles"], action.query or "")
            feedback = f"The knowledge base has {len(self.found)} matching articles."
        else:
            self.category = action.category or self.category
            self.priority = action.priority or self.priority
            feedback = f"Category: {self.category or 'not set'}. Priority: {self.priority or 'not set'}."
            self.done = action.action_type == "submit" or bool(self.category and self.priority)
        if self._state.step_count >= MAX_STEPS:
            self.done = True
        if self.done:
            self.reward = self._grade()
        return self._observe(feedback)

    async def step_async(self, action, timeout_s=None, **kwargs):
        return self.step(action, timeout_s=timeout_s, **kwargs)

    def _grade(self):
        gold = self.ticket["gold"]
        earned = points(CATEGORY, self.category, gold["category"], gold["category_alternates"]) + points(
            PRIORITY, self.priority, gold["priority"], gold["priority_alternates"]
        )
        offered = CATEGORY + PRIORITY
        return (2 * 1000 * earned + offered) // (2 * offered) / 1000

    def _observe(self, feedback):
        return TicketObservation(
            task="ticket-classify",
            **self.ticket["served"],
            status=self.status,
            score=self.reward,
            step=self._state.step_count,
            max_steps=MAX_STEPS,
            allowed_actions=[] if self.done else ACTIONS,
            feedback=feedback,
            knowledge_base=self.found,
            done=self.done,
            reward=self.reward or 0.0,
        )

    @property
    def state(self):
        self._state.ticket_id = self.ticket["served"]["ticket_id"]
        return self._state


TICKETS: list[dict[str, Any]] = load(os.environ["CSENV_TICKETS"])
app = create_fastapi_app(
    TicketEnvironment, TicketAction, TicketObservation, max_concurrent_envs=100_000, env_name="ticket_env"
)

if __name__ == "__main__":
    serve("tickets")
