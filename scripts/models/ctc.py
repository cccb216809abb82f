"""A recognizer of speech: a bidirectional LSTM over frames of sound, and the loss of connectionist temporal classification.

After Graves et al., "Connectionist Temporal Classification" (2006). The two directions are two while loops, whose
accumulators are TensorArrays. The labels of a batch become one sparse tensor: how many there are only their lengths tell.
"""

import tensorflow as tf

from .model import Input, Model
from .recurrent import LstmCell

tf1 = tf.compat.v1

LABELS = 4  # a frame for each of these: the longest text is so many times shorter than the sound


def inputs(options):
    longest = max(1, options.feed_size // LABELS)

    def lengths(name, least, most):
        feed = {"kind": "int", "lo": least, "hi": most + 1}
        return Input(name, tf.int32, [options.static_batch], [options.feed_batch], feed)

    return [
        Input(
            "frames",
            tf.float32,
            [options.static_batch, options.static_size, options.features],
            [options.feed_batch, options.feed_size, options.features],
            {"kind": "normal"},
        ),
        lengths("frame_lengths", 2 * longest + 1, options.feed_size),
        Input(
            "labels",
            tf.int32,
            [options.static_batch, longest],
            [options.feed_batch, longest],
            {"kind": "int", "lo": 0, "hi": options.classes},
        ),
        lengths("label_lengths", 1, longest),
    ]


def sparse(labels, lengths):
    """The labels within the lengths, as a sparse tensor."""
    indices = tf.where(tf.sequence_mask(lengths, labels.shape[1]))
    return tf.SparseTensor(indices, tf.gather_nd(labels, indices), tf.shape(labels, out_type=tf.int64))


def loss(net, batch, options):
    x = batch["frames"]
    for layer in range(options.layers):
        with tf1.variable_scope(f"layer{layer + 1}"):
            forward = LstmCell(net, x.shape[-1], options.units, "forward")
            backward = LstmCell(net, x.shape[-1], options.units, "backward")
            outputs, _ = tf1.nn.bidirectional_dynamic_rnn(
                forward, backward, x, batch["frame_lengths"], dtype=tf.float32
            )
            x = tf.concat(outputs, 2)
    classes = options.classes + 1  # the last one is the blank
    logits = net.dense(tf.reshape(x, [-1, 2 * options.units]), classes, "logits")
    logits = tf.transpose(tf.reshape(logits, [-1, options.static_size, classes]), [1, 0, 2])
    labels = sparse(batch["labels"], batch["label_lengths"])
    return tf.reduce_mean(tf1.nn.ctc_loss(labels, logits, batch["frame_lengths"]))


MODEL = Model(
    name="ctc",
    summary="bidirectional LSTM over frames of sound, with the loss of connectionist temporal classification",
    inputs=inputs,
    loss=loss,
    batch=16,
    size=400,
    classes=28,
    optimizer="adam",
    learning_rate=1e-3,
    flags={"layers": 2, "units": 256, "features": 40},
    free_size=False,
    smallest=8,
    channels_first=False,
)
