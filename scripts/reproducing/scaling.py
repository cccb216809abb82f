"""The articles' figures on several GPUs, with gradients on their way: GoogLeNet and DeepLabv3+ behind NVLink and behind PCIe."""

from . import deeplab, googlenet
from .asking import V100_16, kernels_at, linked
from .published import Figure

TITLE = "Several GPUs of a machine, with their reduces"
NVLINK, PCIE = 7.14e10, 1.2e10
# One machine: the network between nodes is not used. Within it gradients go at the rate of a link, as by default.
NETWORK = ("--network", "12GB/s,100us")
SPEEDS = ((0.85, ""), (0.425, ", kernels half as fast"))


def figures(ask):
    yield from of_googlenet(ask)
    yield from of_deeplab(ask)


def cluster(gpus, sharing):
    return ("--nodes", "1", "--gpus-per-node", str(gpus), "--gpus-per-link", str(sharing), *NETWORK)


def gpu(ask, link, speed):
    profile = ask.profile(f"v100-{link / 1e9:g}-{speed:g}", "v100-nvlink2", **linked(link), **kernels_at(speed))
    return (*V100_16, "--device-profile", profile)


def rate(report):
    return report["with"]["asked"]["examples_per_second"]


def of_googlenet(ask):
    """Two of four GPUs share a link of PCIe."""
    graph = ask.export("googlenet", googlenet.EXPORT)
    for speed, kernels in SPEEDS:
        ratios = []
        for way in ("tflms", "planned"):
            reports = []
            for link, sharing in ((NVLINK, 1), (PCIE, 2)):
                flags = (*gpu(ask, link, speed), *cluster(4, sharing))
                if way == "tflms":
                    parameters = f"--data-parallel {googlenet.BY_THRESHOLDS}"
                    reports.append(ask.tune_at(graph, parameters, googlenet.BATCH, *flags))
                else:
                    reports.append(ask.tune(graph, *flags, "--strategy", way, *googlenet.BATCH))
            nvlink, pcie = reports
            alone = pcie["with"]["alone_seconds"] / nvlink["with"]["alone_seconds"]
            ratios.append((alone, rate(nvlink) / rate(pcie)))
        for place, gpus, theirs in ((0, "1 GPU", 2.7), (1, "4 GPUs", 4.7)):
            what = f"GoogLeNet: {gpus} on NVLink over {gpus} on PCIe{kernels}"
            yield Figure(what, theirs, *(pair[place] for pair in ratios), "{:.2f}x", "11")


def of_deeplab(ask):
    """Four GPUs have a link each; of eight on PCIe two share one."""
    graph = ask.export("deeplab", deeplab.EXPORT)
    for speed, kernels in SPEEDS:
        rates = []
        for link, gpus, sharing in ((NVLINK, 4, 1), (PCIE, 4, 1), (PCIE, 8, 2)):
            flags = (*gpu(ask, link, speed), *cluster(gpus, sharing))
            parameters = f"--data-parallel {deeplab.PARAMETERS}"
            rates.append(rate(ask.tune_at(graph, parameters, deeplab.sized(3200, 1), *flags)))
        fast, four, eight = rates
        yield Figure(f"DeepLabv3+: 4 on NVLink over 4 on PCIe{kernels}", 3.13, fast / four, show="{:.2f}x", note="11")
        yield Figure(f"DeepLabv3+: 4 on NVLink over 8 on PCIe{kernels}", 2.77, fast / eight, show="{:.2f}x", note="11")
        yield Figure(f"DeepLabv3+: 8 on PCIe over 4 on PCIe{kernels}", 1.13, eight / four, show="{:.2f}x", note="11")
