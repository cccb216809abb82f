"""The cells of recurrent networks, for a loop written by hand and for `tf.compat.v1.nn`'s."""

import tensorflow as tf

tf1 = tf.compat.v1


def lstm_step(x, hidden, cell, kernel, bias):
    gates = tf.nn.bias_add(tf.matmul(tf.concat([x, hidden], 1), kernel), bias)
    take, new, forget, give = tf.split(gates, 4, axis=1)
    cell = cell * tf.sigmoid(forget + 1.0) + tf.sigmoid(take) * tf.tanh(new)
    return tf.sigmoid(give) * tf.tanh(cell), cell


class Cell:
    """What `static_rnn` and `dynamic_rnn` want of a cell. Its variables are made outside of any loop."""

    def __init__(self, units, state_size):
        self.output_size = units
        self.state_size = state_size

    def zero_state(self, batch_size, dtype):
        return tf.nest.map_structure(lambda units: tf.zeros([batch_size, units], dtype), self.state_size)


class LstmCell(Cell):
    """A long short-term memory."""

    def __init__(self, net, inputs, units, name):
        super().__init__(units, (units, units))
        with tf1.variable_scope(name):
            self.kernel = net.weights("kernel", [inputs + units, 4 * units], tf1.glorot_uniform_initializer())
            self.bias = net.weights("bias", [4 * units], tf1.zeros_initializer())

    def __call__(self, x, state, scope=None):
        hidden, cell = lstm_step(x, *state, self.kernel, self.bias)
        return hidden, (hidden, cell)


class GruCell(Cell):
    """A gated recurrent unit."""

    def __init__(self, net, inputs, units, name):
        super().__init__(units, units)
        with tf1.variable_scope(name):
            self.gates = net.weights("gates", [inputs + units, 2 * units], tf1.glorot_uniform_initializer())
            self.gates_bias = net.weights("gates_bias", [2 * units], tf1.ones_initializer())
            self.kernel = net.weights("kernel", [inputs + units, units], tf1.glorot_uniform_initializer())
            self.bias = net.weights("bias", [units], tf1.zeros_initializer())

    def __call__(self, x, hidden, scope=None):
        gates = tf.nn.bias_add(tf.matmul(tf.concat([x, hidden], 1), self.gates), self.gates_bias)
        reset, keep = tf.split(tf.sigmoid(gates), 2, axis=1)
        new = tf.matmul(tf.concat([x, reset * hidden], 1), self.kernel)
        hidden = keep * hidden + (1.0 - keep) * tf.tanh(tf.nn.bias_add(new, self.bias))
        return hidden, hidden


CELLS = {"lstm": LstmCell, "gru": GruCell}
