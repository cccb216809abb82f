#!/usr/bin/env python3
"""The cases that run TensorFlow on the software GPU: cases.py CASE LIBSOFTGPU.so

One process for each case: a process has one plug-in with one set of limits. `tensorflow.rs` starts them, with the
settings in the environment, and passes if the exit status is 0.
"""

import collections
import json
import os
import sys
import tempfile
import time

from small_net import OPTIMIZERS, Net, train, variable
from tf_harness import SoftGpu, config, np, tf, tf1

MIB = 1 << 20
TYPE = os.environ.get("SOFTGPU_DEVICE_TYPE", "GPU")
GPU = f"/device:{TYPE}:0"
CPU = "/device:CPU:0"


def same(got, expected, tolerance=1e-5):
    print("got", got, "expected", expected)
    np.testing.assert_allclose(got, expected, rtol=tolerance)
    assert len(set(got)) == len(got), "it does not train"


def oom(work):
    try:
        work()
    except tf.errors.ResourceExhaustedError as e:
        message = str(e)
        print(message.splitlines()[0])
        # A kernel says the first, a copy between devices the second; several ops may wait for room at once, and any of
        # them may be the one to give up first.
        said = ("OOM when allocating", "unable to allocate output tensor")
        assert any(words in message for words in said), message
        return message
    raise AssertionError("no RESOURCE_EXHAUSTED")


def case_trains(gpu):
    """Strict placement, and the CPU's losses."""
    same(train(GPU), train(CPU))
    assert gpu.counters().kernels > 100
    assert gpu.counters().forwarded_outputs > 10


def case_optimizers(gpu):
    """Every optimizer on reference and on resource variables."""
    for optimizer in OPTIMIZERS:
        for resource in (False, True):
            kw = dict(optimizer=optimizer, resource=resource, steps=3)
            same(train(GPU, **kw), train(CPU, **kw))


def case_channels_first(gpu):
    """Models of images and volumes, channels first, train as channels last."""
    for dims, size in ((2, 17), (3, 9)):
        last = train(CPU, dims=dims, size=size)
        same(train(GPU, channels_first=True, dims=dims, size=size), last)
        same(train(GPU, channels_first=False, dims=dims, size=size), last)


def layout_cases():
    """(op, arguments, attributes): arguments are 'image', 'out' (an image of the output's shape), or arrays."""
    rng = np.random.default_rng(1)
    f = lambda *shape: rng.standard_normal(shape).astype("f")
    for dims, conv in ((2, "Conv2D"), (3, "Conv3D")):
        x = f(2, *[7, 6, 5][:dims], 3)
        w = f(*[3, 2, 3][:dims], 3, 4)
        for stride, padding in ((1, "SAME"), (2, "VALID")):
            window = dict(strides=[1, *[stride, stride + 1, stride][:dims], 1], padding=padding)
            yield conv, dict(input=x, filter=w), window
            v = "V2" if dims == 3 else ""
            sizes = np.array(x.shape, "i")
            yield f"{conv}BackpropInput{v}", dict(input_sizes=sizes, filter=w, out_backprop=conv), window
            yield f"{conv}BackpropFilter{v}", dict(input=x, filter_sizes=np.array(w.shape, "i"), out_backprop=conv), window
            d = "3D" if dims == 3 else ""
            pool = dict(window, ksize=[1, *[3, 2, 2][:dims], 1])
            for kind in ("MaxPool", "AvgPool"):
                yield kind + d, dict({"input" if d or kind == "MaxPool" else "value": x}), pool
            yield f"AvgPool{d}Grad", dict(orig_input_shape=sizes, grad=f"AvgPool{d}"), pool
            yield f"MaxPool{d}Grad", dict(orig_input=x, orig_output=f"MaxPool{d}", grad=f"MaxPool{d}"), pool
            yield f"MaxPool{d}GradGrad", dict(orig_input=x, orig_output=f"MaxPool{d}", grad=f(*x.shape)), pool
            if dims == 2:
                k, s = np.array(pool["ksize"], "i"), np.array(window["strides"], "i")
                yield "MaxPoolV2", dict(input=x, ksize=k, strides=s), dict(padding=padding)
                even = dict(window, strides=[1, stride, stride, 1])
                dw = f(3, 2, 3, 2)
                yield "DepthwiseConv2dNative", dict(input=x, filter=dw), even
                yield (
                    "DepthwiseConv2dNativeBackpropInput",
                    dict(input_sizes=sizes, filter=dw, out_backprop="DepthwiseConv2dNative"),
                    even,
                )
                yield (
                    "DepthwiseConv2dNativeBackpropFilter",
                    dict(input=x, filter_sizes=np.array(dw.shape, "i"), out_backprop="DepthwiseConv2dNative"),
                    even,
                )
        yield "BiasAdd", dict(value=x, bias=f(3)), {}
        yield "BiasAddGrad", dict(out_backprop=x), {}
        e = np.zeros(0, "f")
        for training in (True, False):
            stats = (e, e) if training else (f(3), abs(f(3)))
            norm = dict(x=x, scale=f(3), offset=f(3), mean=stats[0], variance=stats[1])
            grad = dict(y_backprop=f(*x.shape), x=x, scale=f(3), reserve_space_1=f(3), reserve_space_2=abs(f(3)))
            attrs = dict(is_training=training)
            for v in ("", "V2", "V3") if dims == 2 else ("V3",):
                yield f"FusedBatchNorm{v}", norm, attrs
                r = dict(reserve_space_3=e) if v == "V3" else {}
                yield f"FusedBatchNormGrad{v}", dict(grad, **r), attrs
    x = f(2, 6, 4, 8)
    yield "Conv2D", dict(input=x, filter=f(3, 3, 8, 2)), dict(
        strides=[1, 1, 2, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 2, 3, 0, 0, 0], dilations=[1, 2, 1, 1]
    )
    yield "SpaceToDepth", dict(input=x), dict(block_size=2)
    yield "DepthToSpace", dict(input=x), dict(block_size=2)


def case_layouts(gpu):
    """Every op that is turned: on the GPU channels first, on the CPU channels last, and the same bits."""
    to_first = lambda a: np.ascontiguousarray(np.moveaxis(a, -1, 1))
    fold = lambda v: np.concatenate([v[:1], v[-1:], v[1:-1]])
    forward, checked = {}, set()
    for op, inputs, attrs in layout_cases():
        inputs = {n: forward[v] if isinstance(v, str) else v for n, v in inputs.items()}
        raw = getattr(tf.raw_ops, op)
        rank = max(v.ndim for n, v in inputs.items() if n not in ("filter", "filter_sizes"))
        last_format, first_format = {4: ("NHWC", "NCHW"), 5: ("NDHWC", "NCDHW")}[rank]
        if op.startswith("BiasAdd"):
            last_format, first_format = "NHWC", "NCHW"
        images = {n for n, v in inputs.items() if n != "filter" and v.ndim == rank}
        vectors = {n for n in inputs if n in ("input_sizes", "orig_input_shape", "ksize", "strides")}
        turned = {
            n: to_first(v) if n in images else fold(v) if n in vectors else v for n, v in inputs.items()
        }
        attrs_first = dict(attrs)
        for n in ("strides", "ksize", "dilations"):
            if n in attrs:
                attrs_first[n] = fold(attrs[n]).tolist()
        if "explicit_paddings" in attrs:
            attrs_first["explicit_paddings"] = fold(np.reshape(attrs["explicit_paddings"], [-1, 2])).ravel().tolist()

        def run(device, values, data_format, attrs):
            with tf.Graph().as_default(), tf.device(device):
                fed = {n: tf1.placeholder(v.dtype, v.shape) for n, v in values.items()}
                # Shapes that the shape function wants to know are constants.
                args = {n: tf.constant(v) if v.dtype == np.int32 else fed[n] for n, v in values.items()}
                out = raw(**args, **attrs, data_format=data_format)
                out = list(out) if isinstance(out, (tuple, list)) else [out]
                with tf1.Session(config=config()) as session:
                    return session.run(out, {fed[n]: v for n, v in values.items() if v.dtype != np.int32})

        expected = run(CPU, inputs, last_format, attrs)
        got = run(GPU, turned, first_format, attrs_first)
        forward[op] = expected[0]
        if op.startswith("FusedBatchNorm") and "Grad" not in op and not attrs["is_training"]:
            got, expected = got[:1], expected[:1]  # the others are not written
        for i, (g, e) in enumerate(zip(got, expected)):
            if g.ndim == rank and "Filter" not in op:
                g = np.moveaxis(g, 1, -1)
            assert g.shape == e.shape, (op, i, g.shape, e.shape)
            assert g.tobytes() == e.tobytes(), (op, i, attrs, np.abs(g - e).max())
        checked.add(op)
    print(len(checked), "ops:", sorted(checked))
    assert len(checked) >= 29, checked


def one_large_op():
    """One kernel that asks for 8 MiB and nothing beside it, so that nothing else can be the first to fail."""
    with tf.Graph().as_default():
        with tf.device(GPU):
            x = tf1.placeholder(tf.float32, [MIB // 4], name="x")
            large = tf.concat([x] * 8, 0)
        with tf1.Session(config=config()) as session:
            session.run(large.op, {x: np.ones(MIB // 4, "f")})


def case_oom(gpu):
    """Too little memory: TensorFlow's error, naming the allocator; then the same process trains something smaller."""
    oom(lambda: train(GPU, size=129))
    message = oom(one_large_op)
    assert "PluggableDevice_0_bfc" in message, message
    assert gpu.counters().live_bytes == gpu.counters().limit_bytes == 4 * MIB
    same(train(GPU, size=9), train(CPU, size=9))


def case_oom_exact(gpu):
    """The same without BFC."""
    oom(lambda: train(GPU, size=129))
    message = oom(one_large_op)
    assert "GPU:0 by allocator Simple allocator" in message, message
    counters = gpu.counters()
    assert counters.failed_allocations > 0
    assert counters.peak_bytes <= counters.limit_bytes == 4 * MIB
    same(train(GPU, size=9), train(CPU, size=9))


def known_graph():
    """A graph of which every allocation and copy is known: see `case_exact`."""
    with tf.device(GPU):
        x = tf1.placeholder(tf.float32, [MIB // 4], name="x")
        a = tf.concat([x, x], 0, name="a")
        b = tf.tile(a, [2], name="b")
    with tf.device(CPU):
        host = tf.raw_ops.PreventGradient(input=b, name="host")
    with tf.device(GPU):
        back = tf.concat([host, host], 0, name="back")
        r = tf.reduce_sum(back, name="r")
    return x, r


def case_exact(gpu):
    """Peak and bytes are those worked out by hand, every time."""
    with tf.Graph().as_default():
        x, r = known_graph()
        with tf1.Session(config=config(inter=1)) as session:
            value = np.ones(MIB // 4, "f")
            for i in range(5):
                gpu.reset()
                before = gpu.counters()
                assert session.run(r, {x: value}) == 8 * MIB / 4
                c = gpu.counters()
                print(c.peak_bytes, c.copies_in.bytes, c.copies_out.bytes, before.live_bytes)
                # x is 1 MiB, a 2, b 4, host 4 again, back 8: the most at once is what comes back and its double.
                assert c.peak_bytes == 12 * MIB
                assert c.live_bytes == before.live_bytes == 0
                # In: x and host. Out: b and r.
                assert c.copies_in.bytes == (1 + 4) * MIB and c.copies_in.copies == 2
                assert c.copies_out.bytes == 4 * MIB + 4 and c.copies_out.copies == 2
                assert c.kernels == 4
                assert c.allocations == 6 and c.largest_allocation == 8 * MIB
    peaks = []
    for _ in range(3):
        gpu.reset()
        train(GPU, inter=1)
        peaks.append(gpu.counters().peak_bytes)
    print(peaks)
    # A scalar that is still on its way out, of 256 bytes, may be in a peak or not.
    assert max(peaks) - min(peaks) <= 1024, peaks


def chain(swap, trigger=True):
    """A chain of layers whose activations of 1 MiB the backward pass wants again; all but the last two may be swapped."""
    with tf.device(GPU):
        x = tf1.placeholder(tf.float32, [512, 512], name="x")
        w = tf1.placeholder(tf.float32, [512, 512], name="w")
        y = [x]
        for _ in range(12):
            y.append(tf.tanh(tf.matmul(y[-1], w)))
        forward = set(tf1.get_default_graph().get_operations())
        loss = tf.reduce_sum(y[-1])
        forward.add(loss.op)
        gradient = tf.gradients(loss, x)[0]
    backward = [op for op in tf1.get_default_graph().get_operations() if op not in forward]
    reader = {t.ref(): op for op in reversed(backward) for t in op.inputs}
    for i in range(1, 11) if swap else ():
        users = [(op, k) for op in backward for k, t in enumerate(op.inputs) if t is y[i]]
        after = [reader[y[i + 2].ref()]] if trigger else []
        with tf.device(CPU), tf.control_dependencies(after):
            back = tf.raw_ops.PreventGradient(input=y[i], name=f"swap{i}")
        for op, k in users:
            op._update_input(k, back)
    return x, w, [loss, gradient]


def run_chain(gpu, swap, trigger=True):
    """Its second step, alone in the counters: the first copies constants in."""
    with tf.Graph().as_default():
        x, w, out = chain(swap, trigger)
        value = np.random.default_rng(0).standard_normal([2, 512, 512]).astype("f") / 16
        with tf1.Session(config=config(inter=1)) as session:
            session.run(out, {x: value[0], w: value[1]})
            gpu.reset()
            return session.run(out, {x: value[0], w: value[1]})


def case_swaps(gpu):
    """What runs out of memory fits with its activations swapped, with the same numbers."""
    oom(lambda: run_chain(gpu, swap=False))
    loss, gradient = run_chain(gpu, swap=True)
    c = gpu.counters()
    print(c.copies_in.bytes, c.copies_out.bytes)
    assert c.copies_in.bytes == (2 + 10) * MIB
    assert c.copies_out.bytes == (1 + 10) * MIB + 4
    assert loss > -512 * 512 and np.abs(gradient).max() > 0


def case_swaps_exact(gpu):
    """The peak falls by what is away, and only with the edges that delay the way back."""
    expected = run_chain(gpu, swap=False)
    np.testing.assert_array_equal(run_chain(gpu, swap=False)[1], expected[1])
    plain = gpu.counters().peak_bytes
    np.testing.assert_array_equal(run_chain(gpu, swap=True)[1], expected[1])
    swapped = gpu.counters().peak_bytes
    np.testing.assert_array_equal(run_chain(gpu, swap=True, trigger=False)[1], expected[1])
    untriggered = gpu.counters().peak_bytes
    print("peaks", plain / MIB, swapped / MIB, untriggered / MIB)
    assert swapped < plain - 4 * MIB
    assert untriggered > swapped + 2 * MIB


def case_throttled(gpu):
    """Copies take at least their bytes by the rate, each direction its own; and run beside kernels."""
    with tf.Graph().as_default():
        x, r = known_graph()
        with tf1.Session(config=config()) as session:
            value = np.ones(MIB // 4, "f")
            session.run(r, {x: value})
            gpu.reset()
            start = time.monotonic()
            session.run(r, {x: value})
            seconds = time.monotonic() - start
            c = gpu.counters()
    least_in, least_out = c.copies_in.bytes / 20e6, c.copies_out.bytes / 10e6
    print(seconds, c.copies_in.busy_ns / 1e9, least_in, c.copies_out.busy_ns / 1e9, least_out)
    assert c.copies_in.busy_ns / 1e9 >= least_in
    assert c.copies_out.busy_ns / 1e9 >= least_out
    assert seconds >= least_in + least_out, "these copies cannot overlap"
    assert c.copy_busy_ns <= c.copies_in.busy_ns + c.copies_out.busy_ns
    # Independent work overlaps with a copy.
    with tf.Graph().as_default(), tf.device(GPU):
        x = tf1.placeholder(tf.float32, [256, 256])
        y = x
        for _ in range(40):
            y = tf.tanh(tf.matmul(y, x))
        big = tf1.placeholder(tf.float32, [MIB])
        out = [tf.reduce_sum(y), tf.reduce_sum(big)]
        with tf1.Session(config=config(inter=4)) as session:
            gpu.reset()
            session.run(out, {x: np.zeros([256, 256], "f"), big: np.zeros([MIB], "f")})
            c = gpu.counters()
    print("overlap", c.overlap_ns, "of", c.kernel_busy_ns, c.copy_busy_ns)
    assert 0 < c.overlap_ns <= min(c.kernel_busy_ns, c.copy_busy_ns)


def case_refused(gpu):
    """Refused: a message, no device, no crash."""
    expected = os.environ["EXPECT_MESSAGE"]
    assert gpu.lib.softgpu_check() == -1
    message = gpu.lib.softgpu_last_error().decode()
    print(message)
    assert expected in message, message
    assert gpu.lib.softgpu_device_count() == 0
    assert gpu.lib.softgpu_counters(0, None) == -1
    with tf.Graph().as_default(), tf.device(GPU):
        r = tf.constant(1.0) + tf1.placeholder_with_default(2.0, [])
        with tf1.Session(config=config()) as session:
            try:
                session.run(r)
            except tf.errors.InvalidArgumentError as e:
                print(str(e).splitlines()[0])
                return
    raise AssertionError("there is a device")


def case_two_devices(gpu):
    """Each has its own limit, counters and copies."""
    from tensorflow.python.client import device_lib

    limits = {d.name: d.memory_limit for d in device_lib.list_local_devices()}
    print(limits)
    assert limits[GPU] == 64 * MIB and limits[GPU[:-1] + "1"] == 32 * MIB
    assert gpu.lib.softgpu_device_count() == 2
    with tf.Graph().as_default():
        with tf.device(GPU):
            x = tf1.placeholder(tf.float32, [MIB])
            a = x * 2.0
        with tf.device(GPU[:-1] + "1"):
            b = tf.reduce_sum(a + 1.0)
            big = tf.reduce_sum(tf.concat([a] * 10, 0))
        with tf1.Session(config=config()) as session:
            value = np.ones(MIB, "f")
            session.run(b, {x: value})  # copies the constants in
            gpu.reset()
            assert session.run(b, {x: value}) == 3 * MIB
            one, two = gpu.counters(0), gpu.counters(1)
            print(one.copies_in.bytes, two.copies_on_device.bytes, one.copies_on_device.bytes, two.copies_in.bytes, one.copies_out.bytes)
            assert one.copies_in.bytes == 4 * MIB and one.copies_out.bytes == 0
            assert one.copies_on_device.bytes + two.copies_on_device.bytes == 4 * MIB
            assert two.copies_out.bytes == 4 and one.kernels > 0 and two.kernels > 0
            message = oom(lambda: session.run(big, {x: value}))
            assert ":1" in message, message
            assert session.run(b, {x: value}) == 3 * MIB


def case_trace(gpu):
    """The trace agrees with the counters."""
    with tf.Graph().as_default():
        x, r = known_graph()
        with tf1.Session(config=config()) as session:
            value = np.ones(MIB // 4, "f")
            session.run(r, {x: value})
            gpu.reset()
            gpu.trace(True)
            session.run(r, {x: value})
            gpu.trace(False)
            session.run(r, {x: value})
            counters = gpu.counters()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        gpu.write_trace(path)
        trace = json.load(open(path))
        try:
            gpu.write_trace(os.path.join(folder, "no", "trace.json"))
        except RuntimeError as e:
            assert "no/trace.json" in str(e), e
        else:
            raise AssertionError("wrote to nowhere")
    events = trace["traceEvents"]
    kernels = {e["name"]: e for e in events if e.get("cat") == "kernel"}
    assert sorted(kernels) == ["a", "b", "back", "r"], kernels
    assert [kernels[n]["args"]["op"] for n in ("a", "r")] == ["ConcatV2", "Sum"]
    starts = [kernels[n]["ts"] for n in ("a", "b", "back", "r")]
    assert starts == sorted(starts)
    copies = collections.Counter()
    for e in events:
        if e.get("cat") == "copy":
            copies[e["name"]] += e["args"]["bytes"]
    assert copies == {"in": 5 * MIB, "out": 4 * MIB + 4}, copies
    curve = [e["args"]["live"] for e in events if e["ph"] == "C"]
    assert max(curve) == 12 * MIB and curve[-1] == 0, curve
    assert counters.copies_in.bytes == 10 * MIB
    assert trace["otherData"]["dropped"] == 0


def case_loops(gpu):
    """TensorArrays, while loops and branches of graph mode, forward and backward, all on the GPU."""

    def run(device):
        with tf.Graph().as_default(), tf.device(device):
            tf1.set_random_seed(3)
            x = tf1.placeholder(tf.float32, [6, 4, 5])
            w = variable("w", [5, 5], 0.5)
            cell = tf.TensorArray(tf.float32, 6).unstack(x)
            out = tf.TensorArray(tf.float32, 6)

            def body(i, h, out):
                h = tf.tanh(tf.matmul(h, w) + cell.read(i))
                h = tf1.cond(tf.reduce_sum(h) > 0, lambda: h * 0.9, lambda: h * 1.1)
                return i + 1, h, out.write(i, h)

            out = tf1.while_loop(lambda i, *_: i < 6, body, [0, tf.zeros([4, 5]), out])[2]
            loss = tf.reduce_mean(tf.square(out.stack()))
            step = tf1.train.GradientDescentOptimizer(0.5).minimize(loss)
            init = tf1.global_variables_initializer()
            with tf1.Session(config=config()) as session:
                session.run(init)
                value = np.random.default_rng(0).standard_normal([6, 4, 5]).astype("f")
                return [float(session.run([loss, step], {x: value})[0]) for _ in range(4)]

    tf1.disable_control_flow_v2()
    same(run(GPU), run(CPU))


def case_random(gpu):
    """Random ops of one seed give what the CPU gives, each node for itself."""

    def run(device):
        with tf.Graph().as_default(), tf.device(device):
            tf1.set_random_seed(5)
            outs = [tf1.random_normal([1000], seed=1), tf1.random_normal([1000], seed=1), tf1.random_uniform([7], seed=2)]
            with tf1.Session(config=config()) as session:
                return [session.run(outs) for _ in range(3)]

    for got, expected in zip(run(GPU), run(CPU)):
        for g, e in zip(got, expected):
            np.testing.assert_array_equal(g, e)


def case_types(gpu):
    """Half, double, bool and integers; empty tensors; results that share an input's memory."""

    def run(device):
        with tf.Graph().as_default(), tf.device(device):
            x = tf1.placeholder(tf.float32, [4, 6])
            h = tf.cast(tf.cast(x, tf.float16) * 2, tf.float32)
            b = tf.cast(tf.cast(x, tf.bfloat16) + 1, tf.float64)
            mask = tf.boolean_mask(x, x > 0)
            ints = tf.argmax(x, 1)
            empty = tf.reduce_sum(tf.concat([x[:0], x[:0]], 0) * 3.0)
            parts = tf.split(x, 2, 0)
            rows = tf.unstack(x, axis=0)
            back = tf.stack([rows[3], rows[0]]) + tf.reshape(parts[1][:, :6], [2, 6])
            outs = [h, b, mask, ints, empty, parts[1] + 1, back, x[1:3] * 2, tf.where(x > 0, x, -x)]
            with tf1.Session(config=config()) as session:
                return session.run(outs, {x: np.random.default_rng(0).standard_normal([4, 6]).astype("f")})

    for got, expected in zip(run(GPU), run(CPU)):
        np.testing.assert_array_equal(got, expected)
    # Ops that pass their input, or rows of it, on take no memory beside it.
    with tf.Graph().as_default(), tf.device(GPU):
        x = tf1.placeholder(tf.float32, [1024, 256])
        y = tf.identity(tf.reshape(tf.raw_ops.PreventGradient(input=tf.expand_dims(x, 0)), [-1]))
        y = tf.stop_gradient(tf.squeeze(tf.reshape(y, [1, 1024, 256])))
        y = tf.raw_ops.CheckNumerics(tensor=y, message="y")
        y = tf.bitcast(tf.bitcast(y, tf.int32), tf.float32)
        y = tf.raw_ops.Slice(input=y, begin=[512, 0], size=[256, 256])
        with tf1.Session(config=config()) as session:
            value = np.arange(1024 * 256, dtype="f").reshape([1024, 256]) / 1e6
            gpu.reset()
            got = session.run(tf.reduce_max(y), {x: value})
            print(gpu.counters().peak_bytes)
            assert got == value[512:768].max()
            assert gpu.counters().peak_bytes <= MIB + 2 * 256


def case_sizes(gpu):
    """What a batch norm reserves has the size that CUDA's kernels give it, and its gradient is that of the CPU."""

    def run(device):
        with tf.Graph().as_default(), tf.device(device):
            images = tf1.placeholder(tf.float32, [2, 4, 4, 3])
            scale = tf.ones([3])
            norm = tf.raw_ops.FusedBatchNormV3(x=images, scale=scale, offset=scale, mean=scale, variance=scale)
            reserved = dict(zip(("reserve_space_1", "reserve_space_2", "reserve_space_3"), norm[3:]))
            gradient = tf.raw_ops.FusedBatchNormGradV3(y_backprop=norm.y * images, x=images, scale=scale, **reserved)
            fetched = [*norm[:3], *gradient[:3]], [norm[5], *gradient[3:]]
            with tf1.Session(config=config()) as session:
                return session.run(fetched, {images: np.random.default_rng(0).standard_normal([2, 4, 4, 3])})

    numbers, reserved = run(GPU)
    for got, expected in zip(numbers, run(CPU)[0], strict=True):
        np.testing.assert_array_equal(got, expected)
    assert [one.shape for one in reserved] == [(), (0,), (0,)], reserved


def case_errors(gpu):
    """A kernel's error is TensorFlow's error, and the session goes on."""
    with tf.Graph().as_default(), tf.device(GPU):
        x = tf1.placeholder(tf.float32, [None, None])
        y = tf1.placeholder(tf.float32, [None, None])
        product = tf.matmul(x, y)
        with tf1.Session(config=config()) as session:
            try:
                session.run(product, {x: np.ones([2, 3], "f"), y: np.ones([2, 3], "f")})
            except tf.errors.InvalidArgumentError as e:
                assert "atrix size-incompatible" in str(e), e
            else:
                raise AssertionError("no error")
            assert session.run(product, {x: np.ones([2, 3], "f"), y: np.ones([3, 2], "f")})[0, 0] == 3
    assert gpu.lib.softgpu_counters(7, None) == -1
    assert gpu.lib.softgpu_reset(7) == -1 and b"no device 7" in gpu.lib.softgpu_last_error()


def case_steady(gpu):
    """Hundreds of steps leave nothing behind, on the device or the host."""
    resident = lambda: int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with tf.Graph().as_default(), tf.device(GPU):
        x = tf1.placeholder(tf.float32, [3, 17, 17, 3])
        y = tf1.placeholder(tf.int64, [3])
        loss = Net(True, 2).loss(x, y)
        step = tf1.train.AdamOptimizer(0.001).minimize(loss)
        init = tf1.global_variables_initializer()
        feed = {x: np.ones([3, 17, 17, 3], "f"), y: np.zeros([3], "i8")}
        with tf1.Session(config=config()) as session:
            session.run(init)
            for i in range(300):
                session.run(step, feed)
                if i == 100:
                    live, before = gpu.counters().live_bytes, resident()
            after = resident()
            print("live", live, gpu.counters().live_bytes, "resident", before, after)
            assert gpu.counters().live_bytes == live
            assert after - before < 8 * MIB


def main():
    case, library = sys.argv[1:]
    gpu = SoftGpu(library)
    if case != "refused":
        gpu.check(gpu.lib.softgpu_check())
    globals()["case_" + case](gpu)
    print("ok", case)


main()
