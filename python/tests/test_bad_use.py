"""Each kind of bad use: one exception, with what to do. Nothing here needs a GPU."""

import keras
import pytest
import tensorflow as tf

import tf_lms
from tf_lms import errors, keras_model, options, private_hooks


def model(**compiled):
    made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    if compiled:
        made.compile(**compiled)
    return made


@pytest.mark.parametrize("memory", ["16", "16 parsecs", "", 16, True, 1.5, [], ["16GiB", "1"]])
def test_memory_that_is_no_size(memory):
    with pytest.raises(tf_lms.UsageError, match=r"16GiB|size|unit"):
        tf_lms.function(lambda: None, gpu_memory=memory)


def test_memory_without_a_unit_says_which():
    with pytest.raises(tf_lms.UsageError, match='"16GiB" if that is what is meant'):
        tf_lms.LMS(gpu_memory="16")


def test_sizes_are_read_as_the_tools_read_them():
    assert options.memory_bytes("16GiB") == [16 << 30]
    assert options.memory_bytes(17179869184) == [16 << 30]
    assert options.memory_bytes(["1GiB", "2GiB"]) == [1 << 30, 2 << 30]


@pytest.mark.parametrize(("argument", "value"), [("memory_ratio", 0), ("memory_ratio", 1.5), ("batch_size", 0), ("device_profile", "gtx")])
def test_other_arguments_that_cannot_be_meant(argument, value):
    with pytest.raises(tf_lms.UsageError, match=argument):
        tf_lms.LMS(gpu_memory="16GiB", **{argument: value})


def test_a_model_that_is_not_compiled():
    with pytest.raises(tf_lms.UsageError, match=r"call model\.compile"):
        tf_lms.apply(model(), gpu_memory="1GiB")


def test_a_model_that_runs_eagerly():
    with pytest.raises(tf_lms.UsageError, match="without run_eagerly"):
        tf_lms.apply(model(loss="mse", run_eagerly=True), gpu_memory="1GiB")


def test_what_is_no_model():
    with pytest.raises(tf_lms.UsageError, match=r"tf_lms\.function"):
        tf_lms.apply(lambda: None, gpu_memory="1GiB")
    with pytest.raises(tf_lms.UsageError, match="takes a function"):
        tf_lms.function(3, gpu_memory="1GiB")


def test_what_was_rewritten_before():
    step = tf_lms.function(lambda x: x, gpu_memory="1GiB")
    with pytest.raises(tf_lms.AlreadyRewritten, match="original function"):
        tf_lms.function(step, gpu_memory="1GiB")
    applied = tf_lms.apply(model(loss="mse"), gpu_memory="1GiB")
    with pytest.raises(tf_lms.AlreadyRewritten, match=r"tf_lms\.remove"):
        tf_lms.apply(applied, gpu_memory="1GiB")
    with pytest.raises(tf_lms.AlreadyRewritten, match=r"tf_lms\.remove"):
        tf_lms.LMS(gpu_memory="1GiB").set_model(applied)
    assert tf_lms.apply(tf_lms.remove(applied), gpu_memory="1GiB") is applied


def test_a_version_that_nobody_tried(monkeypatch):
    monkeypatch.setattr(tf, "__version__", "2.99.0")
    with pytest.raises(tf_lms.UnsupportedVersion, match=r"TensorFlow 2\.99\.0 was never tried"):
        tf_lms.function(lambda x: x, gpu_memory="1GiB")
    monkeypatch.undo()
    monkeypatch.setattr(keras, "__version__", "4.0.0")
    with pytest.raises(tf_lms.UnsupportedVersion, match=r"Keras 4\.0\.0 was never tried"):
        private_hooks.check_keras()


def test_no_gpu_and_no_memory_given():
    step = tf_lms.function(lambda x: x * 2.0)
    with pytest.raises(tf_lms.UsageError, match="sees no GPU"):
        step(tf.ones([2]))


def test_no_data_for_a_prediction():
    with pytest.raises(tf_lms.UsageError, match="give batch_size="):
        tf_lms.predict(model(loss="mse"), "1GiB")
    with pytest.raises(tf_lms.UsageError, match="give data="):
        tf_lms.predict(tf.function(lambda x: x), "1GiB")
    with pytest.raises(tf_lms.UsageError, match=r"data=\(x, y\)"):
        tf_lms.predict(model(loss=lambda y, p: y - p), "1GiB", batch_size=2)
    with pytest.raises(tf_lms.UsageError, match="cannot be read"):
        tf_lms.predict("no/such/file.pb", "1GiB")


def test_graphs_that_are_none():
    with pytest.raises(tf_lms.InvalidGraph):
        tf_lms.rewrite_graph(b"no graph at all", gpu_memory="1GiB", train_op="train")
    with pytest.raises(tf_lms.UsageError, match="not str"):
        tf_lms.rewrite_graph("a.pb", gpu_memory="1GiB")


def test_tensorflow_that_is_not_there(program):
    done = program("import sys; sys.modules['tensorflow'] = None\nimport tf_lms\nprint(tf_lms.rewrite_graph)\ntf_lms.function")
    assert "rewrite_graph" in done.stdout
    assert (
        "MissingTensorFlow: tf_lms.function needs TensorFlow, which is not installed; install it with: pip install tensorflow"
        in done.stderr
    )


def test_keras_on_something_else(program):
    done = program("import tf_lms\ntf_lms.LMS", KERAS_BACKEND="numpy")
    # Where the numpy backend's own needs are not installed, that is what is said.
    assert "MissingTensorFlow: Keras c" in done.stderr and "set KERAS_BACKEND=tensorflow" in done.stderr


def test_all_is_one_family():
    for name in ("UsageError", "CannotRewrite", "DoesNotFit", "InvalidGraph", "UnsupportedVersion", "MissingTensorFlow"):
        assert issubclass(getattr(errors, name), tf_lms.LMSError)
    assert keras_model.report(model()) is None


def test_no_file_hides_a_function_of_its_name(program):
    """Whatever is asked for first: importing a file puts it into the package under its name."""
    lines = "import inspect, tf_lms\nfor name in reversed(tf_lms.__all__): getattr(tf_lms, name)\n"
    done = program(lines + "print([name for name in tf_lms.__all__ if inspect.ismodule(getattr(tf_lms, name))])")
    assert done.stdout.strip() == "[]", done.stderr[-2000:]
