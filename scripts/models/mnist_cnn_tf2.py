"""`mnist_cnn` as TensorFlow 2 has it: variables in a `tf.Module`, a training step in a `tf.function`.

Forward pass, gradients and optimizer land in one function of the graph's library, which the graph itself only calls.
"""

import tensorflow as tf
import tf_keras as keras

OPTIMIZERS = {
    "sgd": keras.optimizers.legacy.SGD,
    "momentum": lambda rate: keras.optimizers.legacy.SGD(rate, momentum=0.9),
    "adam": keras.optimizers.legacy.Adam,
    "rmsprop": keras.optimizers.legacy.RMSprop,
}


class TrainingStep(tf.Module):
    """The variables, and `train`: a batch in, the loss out, one step of the optimizer on the way."""

    def __init__(self, options):
        super().__init__()
        filters, side = options.base_filters, options.size // 2 // 2
        self.seed, self.count = options.seed, 0
        self.layers = [
            self.layer("conv1", [5, 5, 1, filters]),
            self.layer("conv2", [5, 5, filters, 2 * filters]),
            self.layer("dense1", [side * side * 2 * filters, 32 * filters]),
            self.layer("dense2", [32 * filters, options.classes]),
        ]
        self.optimizer = OPTIMIZERS[options.optimizer](options.learning_rate)
        self.optimizer._create_all_weights(self.weights())  # before the function is traced, which must not make any

    def layer(self, name, shape):
        """A kernel and a bias."""
        self.count += 1
        inputs = tf.TensorShape(shape[:-1]).num_elements()
        values = tf.random.stateless_truncated_normal(shape, [self.seed, self.count], stddev=(2.0 / inputs) ** 0.5)
        return [tf.Variable(values, name=f"{name}/kernel"), tf.Variable(tf.zeros(shape[-1:]), name=f"{name}/bias")]

    def weights(self):
        return [variable for layer in self.layers for variable in layer]

    def logits(self, x):
        conv1, conv2, dense1, dense2 = self.layers
        for kernel, bias in [conv1, conv2]:
            x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides=1, padding="SAME"), bias))
            x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="VALID")
        x = tf.reshape(x, [-1, dense1[0].shape[0]])
        x = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, dense1[0]), dense1[1]))
        x = tf.nn.dropout(x, rate=0.5, seed=self.seed)
        return tf.nn.bias_add(tf.matmul(x, dense2[0]), dense2[1])

    def train(self, images, labels):
        weights = self.weights()
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=self.logits(images))
            loss = tf.reduce_mean(losses)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {"loss": loss}


def training_step(inputs, options):
    """The module, and its function for batches of the given form."""
    step = TrainingStep(options)
    signature = [tf.TensorSpec(each.shape, each.dtype, each.name) for each in inputs]
    step.train = tf.function(step.train, input_signature=signature)
    return step
