"""The layers the models are made of.

A `Network` holds what a whole model has in common (layout, precision, kind of variables, whether it trains) so that
the models read as the papers describe them. Variables come from `tf.compat.v1.get_variable` inside variable scopes:
building a model a second time under `reuse=True` shares them, as a second tower does.
"""

import contextlib

import tensorflow as tf

tf1 = tf.compat.v1


def scope(name):
    """A scope for the names of variables and operations, or none."""
    return tf1.variable_scope(name) if name else contextlib.nullcontext()


class Network:
    """One model under construction."""

    def __init__(self, data_format="channels_last", ref_variables=False, fp16=False, keeps_averages=True):
        self.channels_first = data_format == "channels_first"
        self.ref_variables = ref_variables
        self.dtype = tf.float16 if fp16 else tf.float32
        self.keeps_averages = keeps_averages  # those of batch normalization; of several towers the first one does
        self.decayed = []  # the kernels that weight decay applies to

    # --- layout -------------------------------------------------------------------------------------------------------

    def layout(self, rank):
        """TensorFlow's name of the data format of a tensor with `rank` dimensions."""
        if rank == 5:
            return "NCDHW" if self.channels_first else "NDHWC"
        return "NCHW" if self.channels_first else "NHWC"

    @property
    def channel_axis(self):
        return 1 if self.channels_first else -1

    def spatial_axes(self, x):
        """The axes of height and width (and depth)."""
        first = 2 if self.channels_first else 1
        return list(range(first, first + x.shape.rank - 2))

    def channels(self, x):
        return x.shape[self.channel_axis]

    def per_axis(self, x, value):
        """`value` for each spatial axis and 1 for the others: strides, windows, rates."""
        spatial = self.spatial_axes(x)
        return [value if axis in spatial else 1 for axis in range(x.shape.rank)]

    # --- variables ----------------------------------------------------------------------------------------------------

    def variable(self, name, shape, initializer, trainable=True):
        """A float32 variable."""
        return tf1.get_variable(
            name, shape, tf.float32, initializer, trainable=trainable, use_resource=not self.ref_variables
        )

    def weights(self, name, shape, initializer, decay=False):
        """A trainable variable, read in the network's precision."""
        variable = self.variable(name, shape, initializer)
        if decay:
            self.decayed.append(variable)
        return tf.cast(variable, self.dtype)

    def weight_decay(self, factor):
        """The L2 penalty over the kernels made so far."""
        return factor * tf.add_n([tf.nn.l2_loss(kernel) for kernel in self.decayed])

    # --- layers with variables; without a name, in the scope around them ----------------------------------------------

    def conv(self, x, filters, kernel, name=None, stride=1, rate=1, padding="SAME", bias=True, initializer=None):
        """A convolution in two or three dimensions, after the rank of `x`."""
        with scope(name):
            dimensions = x.shape.rank - 2
            shape = [kernel] * dimensions + [self.channels(x), filters]
            initializer = initializer or tf1.variance_scaling_initializer(scale=2.0)
            weights = self.weights("kernel", shape, initializer, decay=True)
            convolve = tf.nn.conv3d if dimensions == 3 else tf.nn.conv2d
            y = convolve(
                x,
                weights,
                strides=self.per_axis(x, stride),
                padding=padding,
                data_format=self.layout(x.shape.rank),
                dilations=self.per_axis(x, rate),
            )
            return self.bias(y) if bias else y

    def depthwise(self, x, kernel, name=None, stride=1, rate=1, padding="SAME", initializer=None):
        """A convolution of each channel by itself; weight decay leaves its kernel alone."""
        with scope(name):
            weights = self.weights("kernel", [kernel, kernel, self.channels(x), 1], initializer)
            return tf.nn.depthwise_conv2d(
                x, weights, self.per_axis(x, stride), padding, self.layout(4), dilations=[rate, rate]
            )

    def conv_transpose(self, x, filters, factor, name=None):
        """A transposed convolution that makes an image or a volume `factor` times larger in each direction."""
        with scope(name):
            dimensions = x.shape.rank - 2
            weights = self.weights(
                "kernel", [factor] * dimensions + [filters, self.channels(x)], tf1.glorot_uniform_initializer(), decay=True
            )
            shape = [size_of(x, axis) * step for axis, step in enumerate(self.per_axis(x, factor))]
            shape[self.channel_axis] = filters
            convolve = tf.nn.conv3d_transpose if dimensions == 3 else tf.nn.conv2d_transpose
            return self.bias(
                convolve(x, weights, shape, self.per_axis(x, factor), "SAME", self.layout(x.shape.rank))
            )

    def bias(self, x):
        """Adds a vector over the channels."""
        vector = self.weights("bias", [self.channels(x)], tf1.zeros_initializer())
        layout = "NCHW" if self.channels_first else "NHWC"  # BiasAdd's names; they hold for any rank
        return tf1.nn.bias_add(x, vector, data_format=layout)

    def dense(self, x, units, name, initializer=None):
        """A fully connected layer over the last axis of a matrix."""
        with scope(name):
            initializer = initializer or tf1.glorot_uniform_initializer()
            weights = self.weights("kernel", [x.shape[-1], units], initializer, decay=True)
            vector = self.weights("bias", [units], tf1.zeros_initializer())
            return tf.nn.bias_add(tf.matmul(x, weights), vector)

    def batch_norm(self, x, name=None, training=True, momentum=0.99, epsilon=1e-3):
        """Fused batch normalization; its own variables are float32 in any precision.

        `training` is True, or a boolean tensor; then a v1 `tf.cond` chooses, which holds the update of the moving
        averages. With True the updates go to the collection `update_ops`.
        """
        with scope(name):
            shape = [self.channels(x)]
            scale = self.variable("gamma", shape, tf1.ones_initializer())
            offset = self.variable("beta", shape, tf1.zeros_initializer())
            mean = self.variable("moving_mean", shape, tf1.zeros_initializer(), trainable=False)
            variance = self.variable("moving_variance", shape, tf1.ones_initializer(), trainable=False)
            layout = self.layout(x.shape.rank)

            def normalize():
                y, batch_mean, batch_variance = tf1.nn.fused_batch_norm(
                    x, scale, offset, epsilon=epsilon, data_format=layout
                )
                kept = [(mean, batch_mean), (variance, batch_variance)] if self.keeps_averages else []
                updates = [
                    moving.assign_sub((moving - current) * (1 - momentum), read_value=False)
                    for moving, current in kept
                ]
                return y, updates

            def normalize_and_update():
                y, updates = normalize()
                with tf.control_dependencies(updates):
                    return tf.identity(y)

            def infer():
                y, _, _ = tf1.nn.fused_batch_norm(
                    x, scale, offset, mean, variance, epsilon=epsilon, data_format=layout, is_training=False
                )
                return y

            if training is not True:
                return tf1.cond(training, normalize_and_update, infer)
            y, updates = normalize()
            for update in updates:
                tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
            return y

    def instance_norm(self, x, name=None, epsilon=1e-3):
        """Each channel of each image or volume to mean 0 and deviation 1, in single ops, as keras_contrib has it."""
        with scope(name):
            shape = [self.channels(x) if axis == self.channel_axis % x.shape.rank else 1 for axis in range(x.shape.rank)]
            scale = tf.reshape(self.weights("gamma", [self.channels(x)], tf1.ones_initializer()), shape)
            offset = tf.reshape(self.weights("beta", [self.channels(x)], tf1.zeros_initializer()), shape)
            spatial = self.spatial_axes(x)
            mean = tf.reduce_mean(x, spatial, keepdims=True)
            deviation = tf.math.reduce_std(x, spatial, keepdims=True) + epsilon
            return (x - mean) / deviation * scale + offset

    def layer_norm(self, x, name=None, epsilon=1e-3):
        """Each row, along the last axis, to mean 0 and deviation 1, in single ops."""
        with scope(name):
            scale = self.weights("gamma", [x.shape[-1]], tf1.ones_initializer())
            offset = self.weights("beta", [x.shape[-1]], tf1.zeros_initializer())
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, offset, scale, epsilon)

    # --- layers without variables -------------------------------------------------------------------------------------

    def pool(self, x, kind, window, stride=None, padding="SAME"):
        """Maximum or average (`kind` is "max" or "avg") over windows, in two or three dimensions."""
        pools = {
            (4, "max"): tf.nn.max_pool2d,
            (4, "avg"): tf.nn.avg_pool2d,
            (5, "max"): tf.nn.max_pool3d,
            (5, "avg"): tf.nn.avg_pool3d,
        }
        return pools[x.shape.rank, kind](
            x,
            ksize=self.per_axis(x, window),
            strides=self.per_axis(x, stride or window),
            padding=padding,
            data_format=self.layout(x.shape.rank),
        )

    def global_mean(self, x, keepdims=False):
        """The mean over all positions, one vector for each image."""
        return tf.reduce_mean(x, self.spatial_axes(x), keepdims=keepdims)

    def repeat(self, x):
        """Each pixel or voxel twice in each direction."""
        for axis in self.spatial_axes(x):
            shape = [size_of(x, i) for i in range(x.shape.rank)]
            shape[axis] *= 2
            x = tf.reshape(tf.stack([x, x], axis + 1), shape)
        return x

    def concat(self, tensors):
        """Joins along the channels."""
        return tf.concat(tensors, self.channel_axis)


def flatten(x):
    """One row for each element of the batch, which may be unknown."""
    return tf.reshape(x, [-1, x.shape[1:].num_elements()])


def size_of(x, axis):
    """The length of an axis: a number where it is known, else a tensor."""
    return tf.shape(x)[axis] if x.shape[axis] is None else x.shape[axis]


def rows(table, numbers):
    """The rows of a table with these numbers, in the shape of the numbers.

    The gradient is a whole table. TensorFlow's own lists the rows that were used; an optimizer finds out first which of
    these are the same, and how many are left only the numbers tell, so that the size of what it makes is in no graph.
    """
    with tf1.get_default_graph().gradient_override_map({"GatherV2": "WholeTable"}):
        return tf.gather(tf.convert_to_tensor(table), numbers)


@tf.RegisterGradient("WholeTable")
def whole_table(gather, gradient):
    """The gradient of `rows`: that of the table, and none of the numbers and the axis."""
    table, numbers, _ = gather.inputs
    return tf.math.unsorted_segment_sum(gradient, numbers, size_of(table, 0)), None, None


def cross_entropy(logits, labels):
    """Mean softmax cross entropy with integer labels, in float32."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(logits, tf.float32))
    return tf.reduce_mean(losses)
