"""csenv's item parameters and abilities: the same estimator written with SciPy, and girth, another estimator."""

import json
import subprocess

import girth
import numpy as np
import pytest
from girth.utilities import INVALID_RESPONSE
from scipy import optimize, special
from statsmodels.tools.numdiff import approx_fprime, approx_hess

MODELS = ["1pl", "2pl"]
# SciPy's search ends at a slope of 1e-6, and csenv's at a step of 1e-7; the curvature is at least that of the prior, 1/9. Standard errors have the error of second differences.
ESTIMATE, ERROR = 1e-4, 1e-3
# girth has no prior and lets each item's expected pass rate be the observed one, which is another consistent estimator. So the two differ by a part of the standard error.
OTHER = 0.5


def draw(seed, model, persons, items, trials, missing):
    """Draws persons, items and the (passed, trials) of each pair."""
    rng = np.random.default_rng(seed)
    a = np.exp(rng.normal(0, 0.4, items)) if model == "2pl" else np.full(items, 1.4)
    p = special.expit(a * (rng.normal(size=(persons, 1)) - rng.normal(0, 1.2, items)))
    n = rng.integers(1, trials + 1, p.shape) * (rng.random(p.shape) >= missing)
    return np.stack([rng.binomial(n, p), n], axis=-1)


def estimate(cases):
    lines = "\n".join(json.dumps({"model": model, "responses": counts.tolist()}) for model, counts in cases)
    answers = subprocess.run(["go", "run", "./hack/conformance/statistics/items"], input=lines, capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in answers.splitlines()]


def column(rows, name, part="Estimate"):
    return np.array([row[name][part] for row in rows])


def test_posterior_mode():
    """By SciPy: the maximum of the penalized marginal likelihood with Gauss-Hermite nodes, its curvature by differences, and the delta method."""
    shapes = [(3, 2, 1, 0), (3, 8, 3, 0), (5, 6, 4, 0.2), (12, 5, 2, 0), (40, 6, 1, 0.1)]
    cases = [(model, draw(seed, model, *shape)) for model in MODELS for seed, shape in enumerate(shapes)]
    cases += [(model, np.full((4, 3, 2), 2)) for model in MODELS]  # everybody passes everything
    nodes, weights = np.polynomial.hermite_e.hermegauss(180)
    kept = weights > 0
    nodes, weights = nodes[kept], np.log(weights[kept] / weights.sum())
    for (model, counts), got in zip(cases, estimate(cases), strict=True):
        passed, trials = counts[..., 0], counts[..., 1]
        slopes = 1 if model == "1pl" else passed.shape[1]

        def logits(x):
            return np.exp(x[:slopes]) * nodes[:, None] + x[slopes:]

        def densities(x):
            z = logits(x)
            return weights + passed @ z.T - trials @ np.logaddexp(0, z).T

        def loss(x):
            penalty = (x[:slopes] ** 2).sum() / (2 * 0.5**2) + (x[slopes:] ** 2).sum() / (2 * 3**2)
            return penalty - special.logsumexp(densities(x), axis=1).sum()

        def parameters(x):
            a = np.exp(x[:slopes]) * np.ones(passed.shape[1])
            return np.concatenate([a, -x[slopes:] / a])

        x = optimize.minimize(loss, np.zeros(slopes + passed.shape[1]), jac=lambda x: approx_fprime(x, loss, centered=True), method="BFGS", options={"gtol": 1e-6}).x
        jacobian = approx_fprime(x, parameters, centered=True)
        errors = np.sqrt(np.diag(jacobian @ np.linalg.inv(approx_hess(x, loss)) @ jacobian.T))
        names = ("Discrimination", "Difficulty")
        np.testing.assert_allclose(np.concatenate([column(got["Items"], n) for n in names]), parameters(x), atol=ESTIMATE, rtol=ESTIMATE)
        np.testing.assert_allclose(np.concatenate([column(got["Items"], n, "Error") for n in names]), errors, rtol=ERROR)
        posterior = special.softmax(densities(x), axis=1)
        ability = posterior @ nodes
        np.testing.assert_allclose(column(got["Persons"], "Ability"), ability, atol=ESTIMATE)
        np.testing.assert_allclose(column(got["Persons"], "Ability", "Error"), np.sqrt(posterior @ nodes**2 - ability**2), atol=ESTIMATE)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("missing", [0, 0.15])
def test_girth(model, missing):
    counts = draw(1, model, 2000, 15, 1, missing)
    (got,) = estimate([(model, counts)])
    responses = np.where(counts[..., 1] > 0, counts[..., 0], INVALID_RESPONSE).T
    options = {"quadrature_n": 81, "quadrature_bounds": (-8, 8), "max_iteration": 60, "use_LUT": False}
    want = girth.onepl_mml(responses, options=options) if model == "1pl" else girth.twopl_mml(responses, options)
    for name in ("Discrimination", "Difficulty"):
        apart = np.abs(column(got["Items"], name) - want[name]) / column(got["Items"], name, "Error")
        assert apart.max() < OTHER, (name, apart)
    # With the same item parameters, expected abilities agree to girth's quadrature.
    ability = girth.ability_eap(responses, column(got["Items"], "Difficulty"), column(got["Items"], "Discrimination"), options)
    np.testing.assert_allclose(column(got["Persons"], "Ability"), ability, atol=1e-6)
