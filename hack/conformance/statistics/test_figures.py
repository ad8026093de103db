"""csenv's figures against SciPy, NumPy and statsmodels, which share no code with them, over random runs. Figures are whole micro-points, so they may differ by rounding."""

import itertools
import json
import subprocess

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

ONE = 1_000_000
PASS = 800_000
# Half a micro-point for rounding, and the error of 53-bit floats.
ROUNDING = 0.5 + 1e-3


def draw(seed):
    """Draws two runs of the same catalogue: some tasks, scenarios of several tasks, unequal trials, and correlated scores within a scenario."""
    rng = np.random.default_rng(seed)
    tasks = ["classify", "resolve", "queue"][: rng.integers(1, 4)]
    scenarios = rng.integers(2, 40)
    shards = rng.integers(1, 9)
    equal = rng.random() < 0.5
    runs = {"run": [], "baseline": []}
    for s in range(scenarios):
        hardness = rng.random()
        for task in tasks:
            if rng.random() < 0.2 and task != tasks[0]:
                continue
            for name, episodes in runs.items():
                if rng.random() < 0.1:
                    continue
                for _ in range(4 if equal else rng.integers(1, 12)):
                    score = np.clip(rng.normal(hardness, rng.choice([0, 0.05, 0.4])), 0, 1)
                    episodes.append({
                        "shard": int(s % shards), "task": task, "scenario": f"S{s:02}", "category": "abcd"[s % 4], "difficulty": ["easy", "hard"][s % 2],
                        "language": ["en", "de", "fr"][s % 3], "score": int(round(score * ONE)) if rng.random() < 0.9 else ONE,
                    })
    return {"passScore": PASS, **runs}


def extremes():
    """Draws runs in which every episode passes, none passes, or all scores are equal."""
    def run(scores, scenarios, trials):
        return [{"shard": s % 2, "task": "t", "scenario": f"S{s}", "category": "c", "difficulty": "d", "language": "l", "score": scores} for s in range(scenarios) for _ in range(trials)]

    return [{"passScore": PASS, "run": run(score, *shape), "baseline": run(other, *shape)} for score, other in [(ONE, ONE), (0, ONE), (PASS, 0)] for shape in [(2, 1), (1, 5), (40, 4)]]


@pytest.fixture(scope="module")
def cases():
    inputs = [draw(seed) for seed in range(300)] + extremes()
    answers = subprocess.run(
        ["go", "run", "./hack/conformance/statistics/figures"], input="\n".join(map(json.dumps, inputs)), capture_output=True, text=True, check=True,
    ).stdout
    return list(zip(inputs, map(json.loads, answers.splitlines()), strict=True))


def near(got, want):
    assert abs(got - want) <= ROUNDING, f"got {got}, want {want}"


def clustered(values, groups):
    """Returns the mean and its clustered standard error, in the unit of the values."""
    fit = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": np.unique(groups, return_inverse=True)[1]})
    return fit.params[0], fit.bse[0], len(set(groups))


def t_interval(mean, se, clusters, low):
    if se == 0:
        return mean, mean
    return np.clip(stats.t.interval(0.95, clusters - 1, loc=mean, scale=se), low, ONE)


def check_estimate(got, episodes):
    scores = np.array([e["score"] for e in episodes], float)
    groups = [e["scenario"] for e in episodes]
    near(got["Mean"], scores.mean())
    passes = int((scores >= PASS).sum())
    near(got["PassRate"], ONE * passes / len(scores))
    counts = np.unique(groups, return_counts=True)[1].astype(float)
    draws = counts.sum() ** 2 / (counts**2).sum()
    low, high = proportion_confint(draws * passes / len(scores), draws, method="wilson")
    near(got["PassRateCI95"]["Low"], ONE * low)
    near(got["PassRateCI95"]["High"], ONE * high)
    assert got["Scenarios"] == len(set(groups))
    if len(set(groups)) < 2:
        assert got["StandardError"] is None and got["CI95"] is None
        return
    mean, se, clusters = clustered(scores, groups)
    near(got["StandardError"], se)
    low, high = t_interval(mean, se, clusters, 0)
    near(got["CI95"]["Low"], low)
    near(got["CI95"]["High"], high)


def test_estimates(cases):
    for given, answer in cases:
        figures = answer["figures"]
        check_estimate(figures, given["run"])
        for key, groups in {"task": "Tasks", "category": "Categories", "difficulty": "Difficulties", "language": "Languages"}.items():
            names = sorted({e[key] for e in given["run"]})
            assert [g["Name"] for g in figures[groups]] == names
            for group in figures[groups]:
                check_estimate(group, [e for e in given["run"] if e[key] == group["Name"]])


def test_quantiles(cases):
    for given, answer in cases:
        scores = sorted(e["score"] for e in given["run"])
        figures = answer["figures"]
        assert (figures["Min"], figures["Max"]) == (scores[0], scores[-1])
        lower, upper = scores[(len(scores) - 1) // 2], scores[len(scores) // 2]
        assert lower - ONE / 50 <= figures["P50"] <= upper + ONE / 50


def test_pass_hat_k(cases):
    """By enumeration: the share of all subsets of k trials in which every trial passes."""
    for given, answer in cases:
        trials = {}
        for e in given["run"]:
            trials.setdefault((e["task"], e["scenario"]), []).append(e["score"] >= PASS)
        for k in range(1, 9):
            shares = [np.mean([all(s) for s in itertools.combinations(t, k)]) for t in trials.values() if len(t) >= k]
            got = [p["Value"] for p in answer["figures"]["PassHatK"] if p["K"] == k]
            assert len(got) == (1 if shares else 0)
            if shares:
                near(got[0], ONE * np.mean(shares))


def test_scores_by_scenario(cases):
    for given, answer in cases:
        trials = {}
        for e in given["run"]:
            trials.setdefault((e["task"], e["scenario"]), []).append(e["score"])
        assert [(s["Task"], s["Scenario"]) for s in answer["scores"]] == sorted(trials)
        for s in answer["scores"]:
            scores = trials[s["Task"], s["Scenario"]]
            near(s["Mean"], np.mean(scores))
            assert (s["Episodes"], s["Passes"]) == (len(scores), sum(x >= PASS for x in scores))


def test_comparison(cases):
    paired = 0
    for _, answer in cases:
        ours, theirs = ({(s["Task"], s["Scenario"]): s["Mean"] for s in answer[side]} for side in ("scores", "baseline"))
        both = sorted(ours.keys() & theirs.keys())
        got = answer["comparison"]
        assert (got["Pairs"], got["OnlyA"], got["OnlyB"]) == (len(both), len(ours) - len(both), len(theirs) - len(both))
        if not both:
            continue
        differences = np.array([ours[p] - theirs[p] for p in both], float)
        near(got["Delta"], differences.mean())
        assert (got["Better"], got["Worse"]) == ((differences > 0).sum(), (differences < 0).sum())
        groups = [scenario for _, scenario in both]
        if len(set(groups)) < 2:
            assert got["CI95"] is None
            continue
        mean, se, clusters = clustered(differences, groups)
        near(got["StandardError"], se)
        low, high = t_interval(mean, se, clusters, -ONE)
        near(got["CI95"]["Low"], low)
        near(got["CI95"]["High"], high)
        if len(both) == clusters and se > 0:  # one task: the paired t-test
            paired += 1
            test = stats.ttest_rel([ours[p] for p in both], [theirs[p] for p in both]).confidence_interval(0.95)
            near(got["CI95"]["Low"], max(test.low, -ONE))
            near(got["CI95"]["High"], min(test.high, ONE))
    assert paired > 20
