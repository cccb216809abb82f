"""The 3D U-Net of Isensee et al., batch 1: resolutions on a V100 with 32 GB, the times of TFLMSv2 itself with 16 GB."""

from .asking import NVLINK, V100_16, V100_32
from .published import Figure, largest_multiple

TITLE = "3D U-Net, batch 1, V100 with 32 GB (times: 16 GB), NVLink"
EXPORT = "isensee3d --batch 1 --size free --dynamic-learning-phase --data-format channels_first"
GPU = (*V100_32, *NVLINK)
SMALL_GPU = (*V100_16, *NVLINK)
FREE = ("--max", "volumes:2,3,4/16", "--max", "truth:2,3,4/16")
GIB = 1 << 30


def sized(size):
    return ("--shape", f"volumes=1x4x{size}x{size}x{size}", "--shape", f"truth=1x3x{size}x{size}x{size}")


def figures(ask):
    graph = ask.export("isensee3d", EXPORT)
    ways = ("tflms", "planned")
    tflms, planned = (ask.tune(graph, *GPU, "--strategy", way, *FREE) for way in ways)
    without = tflms["largest_before"]
    yield Figure("largest volume without LMS", 224, without, show="{:.0f}³", note="2")
    yield Figure("largest volume with LMS", 400, tflms["largest_after"], planned["largest_after"], "{:.0f}³")

    def fits_their_model(size):
        return ask.tune(graph, *V100_32, "--model", "tflms", *sized(size))["tflms"] is not None

    theirs = largest_multiple(fits_their_model, 16, 400)
    yield Figure("the same in TFLMSv2's model of memory", 400, theirs, show="{:.0f}³")
    ratios = [(report["largest_after"] / without) ** 3 for report in (tflms, planned)]
    yield Figure("times the voxels", 5, *ratios, "{:.1f}x", "3")

    base = ask.tune(graph, *GPU, "--strategy", "tflms", *sized(without))
    base_rate = without**3 / base["step_seconds_after"]
    for size in (256, 320):
        reports = [ask.tune(graph, *GPU, "--strategy", way, *sized(size)) for way in ways]
        kept = [100 * size**3 / report["step_seconds_after"] / base_rate for report in reports]
        yield Figure(f"rate at {size}³, of that without LMS", 86, *kept, "{:.0f}%")

    largest = ask.rewrite(graph, *sized(400))["largest_op"]["bytes"] / GIB
    yield Figure("largest op at 400³", 19, largest, show="{:.2f} GiB")

    rewritten = ask.rewrite(graph, *sized(192))
    yield Figure("graph modification at 192³", 18, rewritten["seconds"]["total"], show="{:.2f} s", compared=False)
    seconds = [ask.tune(graph, *SMALL_GPU, "--strategy", way, *sized(192))["seconds"] for way in ways]
    yield Figure("tuning at 192³, 16 GB", 6.3 * 60, *seconds, "{:.1f} s", compared=False)
