"""A published figure beside ours, and tables of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One published figure, what TFLMSv2's strategy comes to in the simulator, and what the planner does.

    `show` is how numbers are written, as in "{:.0f}²". Numbers are None where there is none to give. `note` is the
    number of an explanation on the page.
    """

    what: str
    theirs: float
    tflms: float | None
    planned: float | None = None
    show: str = "{:.0f}"
    note: str = ""
    # Whether theirs is the same quantity; not where they chose a size and ours is the largest.
    compared: bool = True

    def error(self):
        return None if self.tflms is None or not self.compared else (self.tflms - self.theirs) / self.theirs

    def row(self):
        numbers = [self.written(number) for number in (self.theirs, self.tflms, self.planned)]
        error = "" if self.error() is None else f"{self.error():+.0%}"
        mark = f"({self.note})" if self.note else ""
        return f"| {self.what} | {numbers[0]} | {numbers[1]} | {' '.join(filter(None, (error, mark)))} | {numbers[2]} |"

    def written(self, number):
        return "" if number is None else self.show.format(number)


def table(figures):
    lines = ["| figure | theirs | ours, `tflms` | error | ours, `planned` |", "|---|--:|--:|--:|--:|"]
    return "\n".join([*lines, *(figure.row() for figure in figures)]) + "\n"


def largest_multiple(fits, step, guess):
    """The largest multiple of `step` that fits, looked for around a guess; 0 if none does."""
    low, high = 0, None
    probe = max(guess // step, 1)
    while high is None or high - low > 1:
        if fits(probe * step):
            low = probe
        else:
            high = probe
        probe = low + max(low // 4, 1) if high is None else (low + high) // 2
    return low * step
