"""Draws a learning curve."""

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def draw(curve, summary, folder):
    """Writes curve.png and curve.svg with the points of a curve."""
    matplotlib.rcParams["svg.hashsalt"] = "csenv"  # the same curve gives the same bytes
    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    episodes = [point["episodes"] for point in curve]
    for name, label, style in (("train", "training compositions, new seeds", "C0-"), ("held_out", "held-out compositions", "C1-")):
        axes.plot(episodes, [point[name] for point in curve], style, label=label)
    axes.set(xlabel="training episodes", ylabel="mean score", ylim=(0, 1),
             title=f"{summary['task']}, seed {summary['seed']}: {summary['episodes']} episodes in {summary['elapsed'] / 60:.1f} minutes")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(folder / "curve.png", dpi=150)
    figure.savefig(folder / "curve.svg", metadata={"Date": None})
    pyplot.close(figure)
