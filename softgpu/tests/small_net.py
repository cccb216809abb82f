"""A small network that a case can train, with all that convolutional networks are made of."""

from tf_harness import config, np, tf, tf1


def variable(name, shape, scale):
    return tf1.get_variable(
        name, shape, tf.float32, initializer=tf1.random_normal_initializer(stddev=scale, seed=len(name) * 7 + shape[-1])
    )


class Net:
    """Layers in either order of the dimensions. Inputs are always given channels last."""

    def __init__(self, channels_first, dims):
        self.first, self.dims, self.n = channels_first, dims, 0
        last = {2: "NHWC", 3: "NDHWC"}[dims]
        self.format = {2: "NCHW", 3: "NCDHW"}[dims] if channels_first else last
        self.channel = 1 if channels_first else dims + 1

    def name(self, kind):
        self.n += 1
        return f"{kind}{self.n}"

    def sizes(self, n):
        return [1, 1] + [n] * self.dims if self.first else [1] + [n] * self.dims + [1]

    def input(self, x):
        return tf.transpose(x, [0, self.dims + 1] + list(range(1, self.dims + 1))) if self.first else x

    def channels(self, x):
        return x.shape[self.channel]

    def conv(self, x, out, stride=1):
        size = [3] * self.dims + [self.channels(x), out]
        w = variable(self.name("w"), size, (2.0 / np.prod(size[:-1])) ** 0.5)
        op = tf1.nn.conv2d if self.dims == 2 else tf1.nn.conv3d
        return op(x, filter=w, strides=self.sizes(stride), padding="SAME", data_format=self.format)

    def bias(self, x):
        return tf.nn.bias_add(x, variable(self.name("b"), [self.channels(x)], 0.1), data_format=self.format)

    def norm(self, x):
        c = self.channels(x)
        scale, offset = 1.0 + variable(self.name("g"), [c], 0.1), variable(self.name("o"), [c], 0.1)
        return tf1.nn.fused_batch_norm(x, scale, offset, data_format=self.format, is_training=True)[0]

    def pool(self, x, kind):
        op = {
            (2, "max"): tf1.nn.max_pool2d,
            (2, "avg"): tf1.nn.avg_pool2d,
            (3, "max"): tf1.nn.max_pool3d,
            (3, "avg"): tf1.nn.avg_pool3d,
        }[self.dims, kind]
        return op(x, ksize=self.sizes(2), strides=self.sizes(2), padding="SAME", data_format=self.format)

    def depthwise(self, x):
        w = variable(self.name("d"), [3, 3, self.channels(x), 2], 0.3)
        return tf1.nn.depthwise_conv2d(x, w, strides=self.sizes(1), padding="SAME", data_format=self.format)

    def block(self, x, out, stride):
        shortcut = self.norm(self.conv(x, out, stride))
        y = tf.nn.relu(self.norm(self.conv(x, out, stride)))
        return tf.nn.relu(shortcut + self.norm(self.conv(y, out)))

    def loss(self, x, labels):
        y = tf.nn.relu(self.bias(self.conv(self.input(x), 8)))
        y = self.pool(y, "max")
        if self.dims == 2:
            y = self.depthwise(y)
        y = self.pool(self.block(y, 12, 2), "avg")
        spatial = list(range(2, self.dims + 2)) if self.first else list(range(1, self.dims + 1))
        y = tf.reduce_mean(y, spatial)
        logits = tf.matmul(y, variable("fw", [12, 10], 0.3)) + variable("fb", [10], 0.1)
        return tf.reduce_mean(
            tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits), name="loss"
        )


OPTIMIZERS = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: tf1.train.AdamOptimizer(0.002),
}


def train(device, channels_first=False, dims=2, optimizer="momentum", resource=True, steps=4, size=17, **kw):
    """The losses of some steps, with every node on the device."""
    rng = np.random.default_rng(0)
    batch = 3
    xs = rng.standard_normal([batch] + [size] * dims + [3]).astype("f")
    ys = rng.integers(0, 10, batch)
    with tf.Graph().as_default(), tf.device(device):
        tf1.set_random_seed(1)
        with tf1.variable_scope("net", use_resource=resource):
            x = tf1.placeholder(tf.float32, xs.shape)
            y = tf1.placeholder(tf.int64, ys.shape)
            loss = Net(channels_first, dims).loss(x, y)
            step = OPTIMIZERS[optimizer]().minimize(loss)
        init = tf1.global_variables_initializer()
        with tf1.Session(config=config(**kw)) as session:
            session.run(init)
            return [float(session.run([loss, step], {x: xs, y: ys})[0]) for _ in range(steps)]
