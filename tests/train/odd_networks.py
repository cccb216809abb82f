"""Odd steps that are parts of networks which others wrote; `odd_steps.py` has the rest."""

import odd_steps
from odd_steps import BATCH, WIDTH, mean_square, odd


@odd
def equal_ops(step):
    """Ops that compute the same, of which TensorFlow runs one: so the cells of a NASNet are written."""
    cells = [[step.dense(lambda x: x) for _ in range(4)] for _ in range(3)]

    def run(x, _):
        for cell in cells:
            x = sum(branch(odd_steps.tf.nn.relu(x)) for branch in cell)
        return mean_square(x)

    return run


@odd
def equal_paddings(step):
    """The same for what is padded for two convolutions, whose results gate each other: so a WaveNet is written."""
    kernels = [[step.weight(2, 4, 4) for _ in range(2)] for _ in range(3)]

    def run(x, _):
        tf = odd_steps.tf
        x = tf.reshape(x, [BATCH, WIDTH // 4, 4])
        for gates in kernels:
            ways = [tf.nn.conv1d(tf.pad(x, [[0, 0], [1, 0], [0, 0]]), gate, 1, "VALID") for gate in gates]
            x += tf.tanh(ways[0]) * tf.sigmoid(ways[1])
        return mean_square(x)

    return run


@odd
def ctc(step):
    """Its loss has loops that TensorFlow's runtime runs as one op."""
    layer = step.dense(lambda x: x)

    def run(x, words):
        tf = odd_steps.tf
        texts = BATCH // 8
        frames = tf.reshape(layer(x), [texts, 8, WIDTH])
        labels = 1 + tf.reshape(words[: 3 * texts], [texts, 3])
        lengths = tf.fill([texts], 3), tf.fill([texts], 8)
        return tf.reduce_mean(tf.nn.ctc_loss(labels, frames, *lengths, logits_time_major=False, blank_index=0))

    return run
