"""What a step does where it is not rewritten, and what is kept of plans. All on the CPU: what is planned for is not run."""

import json
import logging
import time
import warnings

import keras
import models
import pytest
import tensorflow as tf
from conftest import run_program

import tf_lms
from tf_lms import keras_model, planning, private_hooks


@pytest.fixture(autouse=True)
def nothing_kept():
    planning._kept.clear()


def sequential(size=16):
    made = keras.Sequential(
        [keras.Input((size, size, 3)), *[keras.layers.Conv2D(8, 3, padding="same", activation="relu") for _ in range(6)]]
    )
    made.compile("sgd", "mse")
    return made


DATA = (tf.TensorSpec([None, 16, 16, 3]), tf.TensorSpec([None, 16, 16, 8]))


def test_what_fits_is_not_changed_and_that_is_said(caplog):
    caplog.set_level(logging.INFO, "tf_lms")
    logging.getLogger("tf_lms").propagate = True
    step = tf_lms.function(lambda x: tf.reduce_sum(x * x), gpu_memory="1GiB")
    assert float(step(tf.ones([3]))) == 3.0
    assert step.report.verdict == "fits" and not step.report.changed
    assert "fits as it is, and is not changed" in caplog.text


def test_a_budget_below_the_floor():
    step = tf_lms.function(lambda x: tf.matmul(x, x), gpu_memory="2MiB")
    with pytest.raises(tf_lms.DoesNotFit, match=r"no plan gets below 8.00 MiB; give more memory") as caught:
        step(tf.ones([1024, 1024]))
    assert caught.value.report.floor == 8 << 20


def test_what_may_fit_without_a_margin_runs_as_it_is():
    def step(**options):
        # Two matrices of 4 MiB and their product at the same time: nothing can leave.
        return tf_lms.function(lambda x: tf.matmul(x, x), memory_ratio=0.5, gpu_memory="12MiB", **options)

    made = step()
    with pytest.warns(tf_lms.LMSWarning, match=r"runs as it is, without large model support: .*fits into 12.00 MiB with no plan"):
        assert made(tf.ones([1024, 1024])).shape == (1024, 1024)
    assert "with no plan that was found" in made.report.original
    with pytest.raises(tf_lms.DoesNotFit):
        step(strict=True)(tf.ones([1024, 1024]))


def test_a_plan_that_fits_only_as_predicted_is_warned_of():
    step = tf_lms.function(lambda x: x + 1.0, gpu_memory="1GiB")
    with pytest.warns(tf_lms.LMSWarning, match="may run out of memory: its plan fits only if all goes as predicted"):
        step._tell(tf_lms.Report(data={"is_tight": True}, changed=True))
    with pytest.warns(tf_lms.LMSWarning, match="may run out of memory: it fits only if all goes as predicted"):
        step._tell(tf_lms.Report(data={"is_tight": True}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step._tell(tf_lms.Report(data={"is_tight": False}, changed=True))


def test_planning_that_takes_longer_tells_how_long(caplog, monkeypatch):
    caplog.set_level(logging.INFO, "tf_lms")
    monkeypatch.setattr(planning, "SILENT_SECONDS", 0.05)
    task = planning.Task(b"", "the step", (), (1 << 30,), "soft")
    assert planning._busy(task, lambda: "done") == "done"
    assert not caplog.messages
    assert planning._busy(task, lambda: time.sleep(0.3) or "done") == "done"
    # Each is told after twice the time of the one before.
    assert 2 <= len(caplog.messages) <= 3
    assert set(caplog.messages) == {"planning the step: 0 s so far"}


def test_that_xla_is_off_is_said_once(caplog):
    caplog.set_level(logging.INFO, "tf_lms")
    step = tf_lms.function(lambda x: x, gpu_memory="1GiB", jit_compile=True)
    for _ in range(2):
        step._tell(tf_lms.Report(data={}, changed=True))
    assert sum("no longer compiled by XLA" in message for message in caplog.messages) == 1


@pytest.fixture
def only_xla(monkeypatch):
    """Of ops outside of functions, XLA alone has kernels."""
    monkeypatch.setattr(private_hooks, "has_kernel", lambda op: op == "PartitionedCall")


def compiled_inside():
    inner = tf.function(lambda x: x * 2.0, jit_compile=True)
    return lambda x: inner(x) + 1.0


def test_what_xla_compiles_inside_is_run_op_by_op():
    """With its gradient, which is compiled too; and also where it fits."""

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = compiled_inside()(x) ** 2
        return tape.gradient(y, x)

    ours = tf_lms.function(step, gpu_memory="1GiB", strict=True)
    assert ours(tf.ones([2])).numpy().tolist() == [12.0, 12.0]
    assert ours.report.changed and len(ours.report.without_xla) >= 2
    assert "fits as it is" in str(ours.report) and "run op by op" in str(ours.report)


def test_what_cannot_be_rewritten_runs_as_it_is_and_that_is_said(only_xla):
    step = tf_lms.function(compiled_inside(), gpu_memory="1GiB")
    with pytest.warns(tf_lms.LMSWarning, match=r"runs as it is, without large model support: .*XLA must compile"):
        assert step(tf.ones([2])).numpy().tolist() == [3.0, 3.0]
    assert "XLA" in step.report.original and "XLA" in str(step.report)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step(tf.ones([2]))


def test_strict_makes_an_error_of_it(only_xla):
    step = tf_lms.function(compiled_inside(), gpu_memory="1GiB", strict=True)
    with pytest.raises(tf_lms.CannotRewrite, match="ops of XLA alone"):
        step(tf.ones([2]))


def test_whatever_tensorflow_says_training_goes_on(monkeypatch):
    def broken(*_, **__):
        raise KeyError("something inside")

    monkeypatch.setattr("tf_lms.step.flatten", broken)
    step = tf_lms.function(lambda x: x + 1.0, gpu_memory="1GiB")
    with pytest.warns(tf_lms.LMSWarning, match="KeyError"):
        assert float(step(tf.constant(1.0))) == 2.0


def test_sizes_that_nobody_knows_are_asked_for():
    step = tf_lms.function(lambda x: x * 2.0, gpu_memory="1GiB", strict=True, input_signature=[tf.TensorSpec(None)])
    with pytest.raises(tf_lms.CannotRewrite, match="unknown rank"):
        step(tf.ones([2]))


def test_a_larger_batch_of_the_same_trace_is_planned_for_anew():
    step = tf_lms.function(lambda x: tf.reduce_sum(x) + 0.0, gpu_memory="1GiB", input_signature=[tf.TensorSpec([None])])
    for size, planned in ((2, 1), (1, 1), (5, 2), (4, 2)):
        assert float(step(tf.ones([size]))) == size
        assert len(step.reports) == planned


def test_another_dtype_is_planned_for_anew_and_one_from_before_is_not():
    step = tf_lms.function(lambda x: tf.reduce_sum(x * x), gpu_memory="1GiB", strict=True)
    peaks = []
    for dtype, planned in ((tf.float32, 1), (tf.float64, 2), (tf.float32, 2), (tf.float64, 2)):
        assert float(step(tf.ones([256, 256], dtype))) == 1 << 16
        assert len(step.reports) == planned
        peaks.append(step.report.peak_before)
    assert peaks[1] == 2 * peaks[0]


def test_layers_that_no_longer_train_are_planned_for_anew():
    def trained(budget):
        keras.utils.set_random_seed(1)
        made = sequential()
        callbacks = [tf_lms.LMS(gpu_memory=budget, strict=True)] if budget else []
        data = tf.random.stateless_uniform([16, 16, 16, 3], [1, 2]), tf.ones([16, 16, 16, 8])
        reports = []
        for is_trained in (True, False):
            for layer in made.layers[:3]:
                layer.trainable = is_trained
            made.compile("sgd", "mse")
            before = [weights.numpy() for weights in made.weights]
            losses = made.fit(*data, batch_size=8, verbose=0, callbacks=callbacks).history["loss"]
            changed = [bool((weights.numpy() != old).any()) for weights, old in zip(made.weights, before, strict=True)]
            assert changed == [is_trained] * 6 + [True] * 6
            reports += [callback.report for callback in callbacks]
        return losses, [weights.numpy().tobytes() for weights in made.weights], reports

    *plain, _ = trained(None)
    *lms, (all_of_them, half) = trained("1GiB")
    assert lms == plain
    assert half.peak_before < all_of_them.peak_before


def test_ops_that_name_functions_keep_them():
    def step(x):
        total = tf.data.Dataset.range(5).map(lambda i: tf.cast(i, tf.float32) * 2.0).reduce(0.0, lambda a, b: a + b)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(6):
                y = tf.sin(y) * y
            loss = tf.reduce_sum(y)
        return tape.gradient(loss, x) + total

    lms = tf_lms.function(step, gpu_memory="6MiB", memory_ratio=1.0, strict=True)
    x = tf.reshape(tf.range(2.0**18), [512, 512]) * 1e-5
    assert (lms(x).numpy() == tf.function(step)(x).numpy()).all()
    assert lms.report.changed
    # This process knows all functions anyway; whoever saves the step has only what is in its graph.
    [(_, [planned])] = lms._planned.values()
    library = planned.concrete.graph.as_graph_def().library
    named = {function.signature.name for function in library.function}
    ops = [node for node in planned.concrete.graph.as_graph_def().node if any(attr.HasField("func") for attr in node.attr.values())]
    assert ops
    assert all(attr.func.name in named for node in ops for attr in node.attr.values() if attr.HasField("func"))


def test_it_is_called_like_the_original():
    @tf_lms.function(gpu_memory="1GiB")
    def step(x, scale=2.0, *, shift=None):
        """Does something."""
        return {"y": x * scale + (0.0 if shift is None else shift), "x": x}

    assert step.__name__ == "step" and step.__doc__ == "Does something."
    assert float(step(tf.constant(3.0))["y"]) == 6.0
    assert float(step(tf.constant(3.0), scale=4.0, shift=tf.constant(1.0))["y"]) == 13.0
    outer = tf.function(lambda x: step(x)["y"] + 1.0)
    assert float(outer(tf.constant(3.0))) == 7.0


CACHED = """
import sys
import test_steps
import tf_lms
report = tf_lms.predict(test_steps.sequential(), "2MiB", data=test_steps.DATA, batch_size=16, cache_dir=sys.argv[1])
print(report.verdict, report.planning_seconds > 0, report.data)
"""


def test_plans_are_deterministic_and_kept_for_other_processes(tmp_path):
    told, contents = [], []
    for number in range(3):
        if number == 1:
            next(tmp_path.glob("*.json")).unlink()
        told.append(run_program("-c", CACHED, tmp_path).stdout.split(maxsplit=2))
        contents.append({path.name: path.read_text() for path in tmp_path.glob("*.json")})
    assert [line[:2] for line in told] == [["fits_with_swapping", "True"], ["fits_with_swapping", "True"], ["fits_with_swapping", "False"]]
    assert told[0][2] == told[1][2] == told[2][2]
    assert contents[0] == contents[1] == contents[2] and len(contents[0]) == 1


def test_a_damaged_cache_is_written_anew(tmp_path):
    made = sequential()
    # The first trace makes the optimizer's variables, under other names than later ones.
    tf_lms.predict(made, "1GiB", data=DATA, batch_size=1)
    whole = tf_lms.predict(made, "2MiB", data=DATA, batch_size=16, cache_dir=tmp_path)
    [kept] = tmp_path.glob("*.json")
    kept.write_text(kept.read_text()[:100])
    planning._kept.clear()
    with pytest.warns(tf_lms.LMSWarning, match="written anew"):
        assert tf_lms.predict(made, "2MiB", data=DATA, batch_size=16, cache_dir=tmp_path).data == whole.data
    json.loads(kept.read_text())


def test_predictions_of_models_and_what_the_model_says_of_its_data():
    model = models.cnn()
    model.compile("sgd", models.crossentropy())
    own = tf_lms.predict(model, "1GiB", batch_size=8)
    given = tf_lms.predict(model, "1GiB", data=models.images(8)[:2])
    dataset = tf.data.Dataset.from_tensor_slices(models.images(20)[:2]).batch(8)
    assert own.peak_before == given.peak_before == tf_lms.predict(model, "1GiB", data=dataset).peak_before > 7 << 20
    assert model.train_function is None


def test_the_largest_batch():
    model = models.cnn()
    model.compile("sgd", models.crossentropy())
    found = tf_lms.largest_batch(model, "16MiB", memory_ratio=1.0)
    assert found.as_it_is < found.with_lms
    for size, verdict in ((found.as_it_is, "fits"), (found.with_lms, "fits_with_swapping")):
        assert found.reports[size].verdict == verdict
    assert found.reports[found.with_lms + 1].verdict == "does_not_fit"
    assert str(found.with_lms) in str(found)


def test_the_least_memory():
    made = sequential()
    least = tf_lms.least_memory(made, data=DATA, batch_size=64, memory_ratio=1.0)
    assert tf_lms.predict(made, least, data=DATA, batch_size=64, memory_ratio=1.0).verdict == "fits_with_swapping"
    assert tf_lms.predict(made, least * 4 // 5, data=DATA, batch_size=64, memory_ratio=1.0).verdict == "does_not_fit"


def test_reports_are_shown_in_notebooks():
    report = tf_lms.predict(sequential(), "1500KiB", data=DATA, batch_size=16)
    shown = report._repr_html_()
    assert "<svg" in shown and "<table>" in shown and "fits with swapping" in shown
    assert json.loads(report.to_json())["devices"][0]["peak_before"] == report.peak_before
    assert 0 < report.bytes_out <= report.bytes_in and report.slowdown > 0


def test_a_model_whose_training_function_is_its_own():
    class Own(keras.Sequential):
        def make_train_function(self, force=False):
            self.train_function = lambda iterator: {"loss": 1.0}

    made = Own([keras.Input((2,)), keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    tf_lms.apply(made, gpu_memory="1GiB")
    with pytest.warns(tf_lms.LMSWarning, match="tf_lms.function"):
        made.fit(tf.ones([4, 2]), tf.ones([4, 1]), verbose=0)


def test_larger_batches_in_a_second_fit():
    """Keras has one trace for both, which was planned for the smaller ones."""
    made = sequential()
    x, y = tf.ones([20, 16, 16, 3]), tf.ones([20, 16, 16, 8])
    callback = tf_lms.LMS(gpu_memory="1GiB")
    peaks = []
    for batch in (8, 8, 12, 3):
        made.fit(x, y, batch_size=batch, verbose=0, callbacks=[callback])
        peaks.append(callback.report.peak_before)
    assert peaks[0] == peaks[1] < peaks[2] == peaks[3]


def test_tensorboard_and_a_new_optimizer(tmp_path):
    made = sequential()
    data = (tf.ones([16, 16, 16, 3]), tf.ones([16, 16, 16, 8]))
    made.fit(*data, batch_size=8, verbose=0, callbacks=[tf_lms.LMS(gpu_memory="1GiB", log_dir=tmp_path)])
    [file] = tmp_path.glob("events*")
    for tag in ("lms/peak_bytes_before", "lms/bytes_out", "lms/slowdown"):
        assert tag.encode() in file.read_bytes()
    before = keras_model.report(made)
    made.compile("adam", "mse")
    made.fit(*data, batch_size=8, verbose=0)
    assert keras_model.report(made).devices[0]["persistent_bytes"] > before.devices[0]["persistent_bytes"]
    tf_lms.remove(made)
    made.fit(*data, batch_size=8, verbose=0)
    assert keras_model.report(made) is None


def test_ops_that_pass_several_tensors_on_are_taken_out():
    """Keras' optimizers leave one behind all gradients, which none of them waits for in the step that TensorFlow runs."""
    from tf_lms.flatten import flatten

    @tf.custom_gradient
    def both(x, y):
        return [x * 2.0, y * 3.0], lambda dx, dy: (dx * 2.0, dy * 3.0)

    def step(x, y):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            a, b = both(x, y)
            loss = tf.reduce_sum(a * b)
        return tape.gradient(loss, [x, y])

    concrete = tf.function(step).get_concrete_function(tf.TensorSpec([2]), tf.TensorSpec([2]))
    assert any(node.op == "IdentityN" for node in concrete.graph.as_graph_def().node)
    assert not any(node.op == "IdentityN" for node in flatten(concrete, {}).graph.node)
    lms = tf_lms.function(step, gpu_memory="1GiB", strict=True)
    args = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])
    assert [value.numpy().tolist() for value in lms(*args)] == [value.numpy().tolist() for value in step(*args)]
