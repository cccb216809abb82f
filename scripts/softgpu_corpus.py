#!/usr/bin/env python3
"""Trains a graph of the corpus on the CPU or on the software GPU and prints what came out as JSON.

    softgpu_corpus.py NAME.meta cpu
    softgpu_corpus.py NAME.meta LIBSOFTGPU.so

Beside NAME.meta lies NAME.json, which says what to feed and which ops to run. On the software GPU every node is asked
for /device:GPU:0; "on_cpu" lists the ops that TensorFlow put on the CPU all the same, for want of a kernel.
"""

import argparse
import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "softgpu", "tests"))

from tf_harness import SoftGpu, config, np, tf, tf1


def feeds(manifest, rng, sizes):
    values = {}
    for i in manifest["inputs"]:
        shape, kind = [sizes.get(n, n) for n in i["feed_shape"]], i["kind"]
        if kind == "normal":
            value = rng.standard_normal(shape)
        elif kind == "int":
            value = rng.integers(0, i["hi"], shape)
        elif kind == "binary":
            value = rng.integers(0, 2, shape)
        elif kind == "onehot":
            value = np.eye(shape[-1])[rng.integers(0, shape[-1], shape[:-1])]
        elif kind == "const":
            value = np.full(shape, i["value"])
        elif kind == "true":
            value = np.full(shape, True)
        else:
            raise SystemExit(f"unknown kind of input {kind}")
        values[i["name"]] = np.asarray(value, dtype=i["dtype"])
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("meta")
    parser.add_argument("device")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--inter", type=int, default=0)
    pair = lambda text: tuple(map(int, text.split("=")))
    parser.add_argument("--size", type=pair, action="append", default=[], help="N=M: feed M where the manifest has size N")
    parser.add_argument("--strict", action="store_true", help="fail where an op has no kernel")
    args = parser.parse_args()
    manifest = json.load(open(args.meta[: -len(".meta")] + ".json"))
    meta = tf1.MetaGraphDef()
    meta.ParseFromString(open(args.meta, "rb").read())
    gpu = None
    if args.device != "cpu":
        gpu = SoftGpu(args.device)
        kind = os.environ.get("SOFTGPU_DEVICE_TYPE", "GPU")
        for node in meta.graph_def.node:
            node.device = f"/device:{kind}:0"
    result = {"name": manifest["name"], "losses": []}
    with tf.Graph().as_default():
        # The corpus's random ops have no seed of their own.
        for node in meta.graph_def.node:
            if "seed" in node.attr and "seed2" in node.attr:
                node.attr["seed"].i, node.attr["seed2"].i = 1, sum(node.name.encode()) + 1
            if args.size and node.op in ("Placeholder", "PlaceholderWithDefault"):
                node.attr["shape"].shape.unknown_rank = True
                del node.attr["shape"].shape.dim[:]
            node.attr.pop("_output_shapes", None)
        tf1.import_graph_def(meta.graph_def, name="")
        values = feeds(manifest, np.random.default_rng(0), dict(args.size))
        cfg = config(soft=not args.strict, inter=args.inter)
        with tf1.Session(config=cfg) as session:
            session.run(manifest["init_op"])
            for step in range(args.steps):
                if gpu:
                    gpu.reset()
                last = gpu and step == args.steps - 1
                kw = {}
                if last:
                    options = tf1.RunOptions(output_partition_graphs=True)
                    kw = dict(options=options, run_metadata=tf1.RunMetadata())
                loss, _ = session.run([manifest["loss"], manifest["train_op"]], values, **kw)
                result["losses"].append(float(np.sum(loss)))
                if last:
                    on_cpu = collections.Counter(
                        n.op
                        for p in kw["run_metadata"].partition_graphs
                        for n in p.node
                        if "CPU" in n.device and n.op not in ("_Send", "_Recv", "_HostSend", "_HostRecv", "NoOp", "_Arg", "_Retval")
                    )
                    c = gpu.counters()
                    result.update(
                        on_cpu=on_cpu,
                        peak=c.peak_bytes,
                        bytes_in=c.copies_in.bytes,
                        bytes_out=c.copies_out.bytes,
                        kernels=c.kernels,
                        forwarded=c.forwarded_outputs,
                        kernel_ms=c.kernel_busy_ns / 1e6,
                    )
    print(json.dumps(result))


main()
