"""DeepLabv3+ with Xception-65: batch 16 on a V100 with 32 GB, and TFLMSv2 with fixed parameters on one with 16 GB."""

from .asking import NVLINK, V100_16, V100_32, fits, kernels_at, linked
from .published import Figure, largest_multiple

TITLE = "DeepLabv3+, Xception-65"
EXPORT = "deeplabv3plus --batch free --size free --ref-variables"
LARGE = (*V100_32, *NVLINK)
SMALL = (*V100_16, *NVLINK)
FREE = ("images:1,2", "labels:1,2")
WAYS = ("tflms", "planned")
# What the article trained with on 16 GB; it tuned nothing there.
PARAMETERS = "--swapout-threshold 1 --swapin-ahead 1 --swapin-groupby 0 --sync-mode 0"
BOUNDLESS = ("--gpu-mem", "1TiB", *NVLINK)
MEMORY = 15117 << 20
GB = 10**9


def sized(size, batch):
    return ("--shape", f"images={batch}x{size}x{size}x3", "--shape", f"labels={batch}x{size}x{size}x1")


def free(step):
    return [flag for name in FREE for flag in ("--max", f"{name}/{step}")]


def figures(ask):
    graph = ask.export("deeplab", EXPORT)
    yield from on_32_gb(ask, graph)
    yield from on_16_gb(ask, graph)


def on_32_gb(ask, graph):
    tflms, planned = (ask.tune(graph, *LARGE, "--strategy", way, "--batch-size", "16", *free(100)) for way in WAYS)
    without = tflms["largest_before"]
    yield Figure("32 GB, batch 16: largest image without LMS", 500, without, show="{:.0f}²")
    largest = [report["largest_after"] for report in (tflms, planned)]
    yield Figure("largest image with LMS", 1600, *largest, "{:.0f}²")
    yield Figure("times the pixels", 10, *((size / without) ** 2 for size in largest), "{:.1f}x", "4")

    base = ask.tune(graph, *LARGE, "--strategy", "tflms", *sized(500, 16))
    for size in (600, 800):
        reports = [ask.tune(graph, *LARGE, "--strategy", way, *sized(size, 16)) for way in WAYS]
        alone = (size / 500) ** 2 * base["step_seconds_after"]
        kept = [100 * alone / report["step_seconds_after"] for report in reports]
        yield Figure(f"rate at {size}², of that at 500²", 85, *kept, "{:.0f}%", "5")
    for size, theirs in ((1300, 826 / 5), (1600, 1400 / 5)):
        reports = [ask.tune(graph, *LARGE, "--strategy", way, *sized(size, 16)) for way in WAYS]
        moved = [report["copied_in_bytes"] / GB for report in reports]
        yield Figure(f"to the GPU in a step at {size}²", theirs, *moved, "{:.0f} GB", "6")


def on_16_gb(ask, graph):
    ways = (undelayed, delayed)
    found = ask.tune(graph, *SMALL, "--strategy", "planned", "--batch-size", "1", *free(200))
    yield Figure("16 GB, batch 1: largest image without LMS", 1400, found["largest_before"], show="{:.0f}²")
    limits = [largest_multiple(lambda size: way(ask, graph, sized(size, 1)), 100, 3200) for way in ways]
    yield Figure("largest with LMS, no allocation waits", 3200, limits[0], found["largest_after"], "{:.0f}²", "7")
    yield Figure("largest with LMS, allocations wait for copies", 3200, limits[1], show="{:.0f}²", note="7")

    open_batch = ("--shape", "images=?x1400x1400x3", "--shape", "labels=?x1400x1400x1")
    found = ask.tune(graph, *SMALL, "--strategy", "planned", *open_batch, "--max", "batch")
    yield Figure("at 1400²: largest batch without LMS", 1, found["largest_before"])
    limits = [largest_multiple(lambda batch: way(ask, graph, sized(1400, batch)), 1, 5) for way in ways]
    yield Figure("largest batch with LMS, no allocation waits", 5, limits[0], found["largest_after"], note="7")
    yield Figure("largest batch with LMS, allocations wait for copies", 5, limits[1], note="7")
    yield from against_pcie(ask, graph)


def undelayed(ask, graph, shapes):
    """Whether the peak with their parameters, where memory has no end and so nothing waits, is within the memory."""
    return ask.tune_at(graph, PARAMETERS, shapes, *BOUNDLESS)["peak_after"] <= MEMORY


def delayed(ask, graph, shapes):
    """Whether their parameters fit where a failed allocation waits for copies under way, as TensorFlow's does."""
    return fits(ask.tune_at(graph, PARAMETERS, shapes, *SMALL))


def against_pcie(ask, graph):
    """Four GPUs with a link each on both sides; with eight, two share a link of PCIe."""
    shapes = sized(3200, 1)
    for speed, kernels in ((0.85, ""), (0.425, ", kernels half as fast")):
        seconds = []
        for link in (7.14e10, 1.2e10, 6e9):
            profile = ask.profile(f"v100-{link / 1e9:g}-{speed:g}", "v100-nvlink2", **linked(link), **kernels_at(speed))
            report = ask.tune_at(graph, PARAMETERS, shapes, *V100_16, "--device-profile", profile)
            seconds.append(report["step_seconds_after"])
        fast, alone, shared = seconds
        for gpus, theirs, ratio in ((4, 3.13, alone / fast), (8, 2.77, shared / fast / 2)):
            what = f"4 GPUs on NVLink over {gpus} on PCIe, 3200²{kernels}"
            yield Figure(what, theirs, ratio, show="{:.2f}x", note="8")
