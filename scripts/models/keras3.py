"""Models as Keras 3 has them: its layers and optimizers, and a training step of one's own in a `tf.function`."""

import keras
import tensorflow as tf

OPTIMIZERS = {
    "sgd": keras.optimizers.SGD,
    "momentum": lambda rate: keras.optimizers.SGD(rate, momentum=0.9),
    "adam": keras.optimizers.Adam,
    "rmsprop": lambda rate: keras.optimizers.RMSprop(rate, rho=0.9, epsilon=1e-7),
}


class TrainingStep(tf.Module):
    """The model, the optimizer, and `train`: a batch in, the loss out, one step of the optimizer on the way.

    The second input is a label for each example of the first, for which the model makes logits.
    """

    def __init__(self, make, inputs, options):
        super().__init__()
        keras.utils.set_random_seed(options.seed)
        keras.backend.set_image_data_format(options.data_format)
        self.model = make(keras.Input(batch_shape=inputs[0].shape), options)
        self.optimizer = OPTIMIZERS[options.optimizer](options.learning_rate)
        self.optimizer.build(self.model.trainable_variables)
        signature = [tf.TensorSpec(each.shape, each.dtype, each.name) for each in inputs]
        self.train = tf.function(self.step, input_signature=signature)

    def weights(self):
        return [variable.value for variable in self.model.trainable_variables]

    def step(self, examples, labels):
        weights = self.model.trainable_variables
        with tf.GradientTape() as tape:
            logits = self.model(examples, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.weights()), weights))
        return {"loss": loss}


def resnet50(images, options):
    """ResNet50 of keras.applications, its top a dense layer on the global average."""
    backbone = keras.applications.ResNet50(include_top=False, weights=None, input_shape=images.shape[1:], pooling="avg")
    logits = keras.layers.Dense(options.classes, name="predictions")(backbone(images))
    return keras.Model(images, logits)


def lstm(frames, options):
    """LSTMs in `tf.while_loop`s, as Keras makes them where no cuDNN is; the last state decides."""
    x = frames
    for layer in range(options.layers):
        x = keras.layers.LSTM(options.units, return_sequences=layer + 1 < options.layers, use_cudnn=False)(x)
    return keras.Model(frames, keras.layers.Dense(options.classes)(x))
