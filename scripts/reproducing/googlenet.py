"""The enlarged GoogLeNet, images of 2240² in half precision, on a V100 with 16 GB behind NVLink and behind PCIe."""

from .asking import NVLINK, V100_16, fits, kernels_at, linked
from .published import Figure

TITLE = "GoogLeNet 2240², half precision, V100 with 16 GB"
EXPORT = "googlenet --batch free --size 2240 --ref-variables --fp16 --data-format channels_first"
GPU = (*V100_16, *NVLINK)
# The first TFLMS with --lms_n_tensors=-1 --lms_lb=1, as the article ran it.
TFLMS1 = "--strategy tflms-v1 --lb 1 --n-tensors -1"
# Much the same in TFLMSv2's parameters: all that the backward phase reads is swapped, with a copy back for each reader.
BY_THRESHOLDS = "--swapout-threshold 1 --swapin-ahead 1 --swapin-groupby 0 --sync-mode 0 --incl-input-by-scopes gradients"
BATCH = ("--batch-size", "15")
# Each strategy, as it is named in the table and asked for.
STRATEGIES = {
    "`tflms-v1`, as the article ran it": TFLMS1,
    "`tflms-v1`, searched": "--strategy tflms-v1",
    "`tflms`, searched": "--strategy tflms",
    "`planned`": "--strategy planned",
}
GIB = 1 << 30


def figures(ask):
    graph = ask.export("googlenet", EXPORT)
    tflms, planned = (ask.tune(graph, *GPU, "--strategy", way, "--max", "batch") for way in ("tflms", "planned"))
    yield Figure("largest batch without LMS", 11, tflms["largest_before"])
    most = [report["largest_after"] for report in (tflms, planned)]
    yield Figure("batch with LMS: trained, largest", 15, *most, compared=False, note="9")
    for speed, kernels in ((0.85, ""), (0.425, ", kernels half as fast")):
        swapped, planned = [], []
        for link in (7.14e10, 1.2e10, 6e9):
            profile = ask.profile(f"v100-{link / 1e9:g}-{speed:g}", "v100-nvlink2", **linked(link), **kernels_at(speed))
            gpu = (*V100_16, "--device-profile", profile)
            swapped.append(ask.tune_at(graph, TFLMS1, BATCH, *gpu)["step_seconds_after"])
            planned.append(ask.tune(graph, *gpu, "--strategy", "planned", *BATCH)["step_seconds_after"])
        for place, gpus, theirs in ((1, "1 GPU", 2.7), (2, "4 GPUs", 4.7)):
            ratios = [seconds[place] / seconds[0] for seconds in (swapped, planned)]
            yield Figure(f"{gpus} on NVLink over {gpus} on PCIe{kernels}", theirs, *ratios, "{:.2f}x", "10")


def more(ask):
    """The strategies beside each other at the article's batch: what they copy, and what that costs on both links."""
    graph = ask.export("googlenet", EXPORT)
    pcie = ask.profile("v100-12-0.85", "v100-nvlink2", **linked(1.2e10), **kernels_at(0.85))
    lines = [
        "| at batch 15, 16 GB | tensors | GiB out | GiB back | peak, GiB | step longer by, NVLink | PCIe, 12 GB/s |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, flags in STRATEGIES.items():
        asked = [
            ask.tune(graph, *V100_16, *link, *flags.split(), *BATCH) for link in (NVLINK, ("--device-profile", pcie))
        ]
        first = asked[0]
        copied = (first["swapout_bytes"], first["swapin_bytes"], first["peak_after"])
        cells = [str(first["swapped_tensors"]), *(f"{size / GIB:.1f}" for size in copied), *map(longer, asked)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def longer(report):
    """By how much a step is longer than if memory had no end; with no end of it for the plan either where that does not fit."""
    part = report["step_seconds_after"] / report["step_seconds_before"] - 1
    return f"{part:.0%}" if fits(report) else f"{part:.0%} (does not fit)"
