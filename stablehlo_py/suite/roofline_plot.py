"""Measurements under the roofs of the machine (Williams, Waterman and Patterson, "Roofline", 2009), as an SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib
from matplotlib.figure import Figure

from stablehlo_py.backends.cpu.peaks import Peaks, size_text
from stablehlo_py.suite.measure import Measurement

_NAMED = 100  # points; names of more would hide each other
_ROOFS = {"f32": "f32", "f16": "bf16", "i8": "i8"}


def plot(peaks: Sequence[Peaks], measurements: Sequence[Measurement]) -> str:
    """The text of an SVG: a panel for each number of threads. Operations a second over operations for each byte of
    arguments and results; a line for each peak of arithmetic, and for copies of each size."""
    matplotlib.rcParams.update({"svg.hashsalt": "roofline", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(figsize=(6 * len(peaks), 4.5), layout="constrained")
    for each, axes in zip(peaks, figure.subplots(1, len(peaks), squeeze=False)[0], strict=True):
        points = {
            m.model: (m.operations / m.touched, m.operations / m.seconds / 1e9)
            for m in measurements
            if m.threads == each.threads and m.operations and m.touched and m.seconds
        }
        low = min([0.1, *(x for x, _ in points.values())])
        high = max([100.0, *(x for x, _ in points.values())])
        top = max(getattr(each.rates, name) for name in _ROOFS)
        for size, rate in each.copies.items():
            right = min(high, top / rate)
            axes.plot([low, right], [1e3 * rate * low, 1e3 * rate * right], color="0.7", linewidth=0.8)
            axes.annotate(size_text(size), (low, 1e3 * rate * low), fontsize=7, color="0.4")
        for name, label in _ROOFS.items():
            rate = 1e3 * getattr(each.rates, name)
            axes.axhline(rate, color="0.4", linewidth=0.8)
            axes.annotate(label, (high, rate), fontsize=7, color="0.2", ha="right", va="bottom")
        axes.scatter([x for x, _ in points.values()], [y for _, y in points.values()], s=9, color="C0", zorder=3)
        for name, place in points.items() if len(points) <= _NAMED else ():
            axes.annotate(name.rpartition("/")[2], place, fontsize=5, xytext=(2, 2), textcoords="offset points")
        axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel="operations a byte")
        axes.set_ylabel("operations a second, in 10^9")
        axes.set_title(f"{each.threads} thread{'s' * (each.threads > 1)}", fontsize=9)
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
