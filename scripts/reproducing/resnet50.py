"""ResNet50 of Keras, batch 1, on a V100 with 32 GB: what two of the articles have, on resolutions and on TFLMSv2."""

from .asking import NVLINK, V100_32
from .published import Figure, largest_multiple

TITLE = "ResNet50, batch 1, V100 with 32 GB, NVLink"
EXPORT = "resnet50 --batch 1 --size free --classes 15 --dynamic-learning-phase --data-format channels_first"
GPU = (*V100_32, *NVLINK)
# What TFLMSv2 itself counts on.
MOST_OF_V100_32 = (*V100_32[:2], "--memory-ratio", "0.9")
FREE = ("--max", "images:2,3/500")
GIB = 1 << 30


def sized(size):
    return ("--shape", f"images=1x3x{size}x{size}")


def figures(ask):
    graph = ask.export("resnet50", EXPORT)
    found = {way: ask.tune(graph, *GPU, "--strategy", way, *FREE) for way in ("tflms", "planned")}
    tflms, planned = found["tflms"], found["planned"]
    without = tflms["largest_before"]
    yield Figure("largest image without LMS", 3000, without, show="{:.0f}²")
    yield Figure("largest image with LMS", 9500, tflms["largest_after"], planned["largest_after"], "{:.0f}²", "1")

    def fits_their_model(size):
        return ask.tune(graph, *V100_32, "--model", "tflms", *sized(size))["tflms"] is not None

    theirs = largest_multiple(fits_their_model, 500, 9500)
    yield Figure("the same in TFLMSv2's model of memory", 9500, theirs, show="{:.0f}²")
    static = ask.export("resnet50_static", EXPORT.replace(" --dynamic-learning-phase", ""))
    most = ask.tune(static, *GPU, "--strategy", "tflms", *FREE)["largest_after"]
    yield Figure("the same with no learning phase", 9500, most, show="{:.0f}²", compared=False, note="1")
    ratios = [(report["largest_after"] / without) ** 2 for report in (tflms, planned)]
    yield Figure("times the pixels", 10, *ratios, "{:.1f}x", "1")

    base = ask.tune(graph, *GPU, "--strategy", "tflms", *sized(3000))
    at_6000 = [ask.tune(graph, *GPU, "--strategy", way, *sized(6000)) for way in found]
    kept = [100 * 4 * base["step_seconds_after"] / report["step_seconds_after"] for report in at_6000]
    yield Figure("rate at 6000², of that at 3000²", 95, *kept, "{:.0f}%")

    report = ask.tune(graph, *GPU, "--strategy", "tflms", *sized(7500))
    yield Figure("simulated peak at 7500² without LMS", 140, report["peak_before"] / GIB, show="{:.0f} GiB")
    tuned = ask.tune(graph, *MOST_OF_V100_32, "--model", "tflms", *sized(7500))["tflms"]
    yield Figure("the same with LMS, TFLMSv2's model", 25, tuned["peak"] / GIB, show="{:.0f} GiB")
    yield Figure("copied out at 7500², TFLMSv2's model", 108.89, tuned["swapout_bytes"] / GIB, show="{:.0f} GiB")
    for size, theirs in ((7500, 10.06), (9500, 16)):
        largest = ask.rewrite(graph, *sized(size))["largest_op"]["bytes"] / GIB
        yield Figure(f"largest op at {size}²", theirs, largest, show="{:.2f} GiB")
