"""Trains a graph of version 1 with a hook, on the software GPU: `v1_session.py MODEL MEMORY [BUDGET] [ALLOCATOR]`. Prints one line of JSON.

MODEL is `images`; or `calls`, whose graph has branches and a loop that are functions; or `fed`, which is fed the size of its batch and how
often a loop runs. PROFILE in the environment is the device's profile.
"""

import hashlib
import json
import os
import sys

import numpy as np
import soft

model, memory, budget, allocator = [*sys.argv[1:], *["", "exact"][len(sys.argv) - 3 :]]
soft.load(memory, allocator)
import tensorflow.compat.v1 as tf  # noqa: E402

import tf_lms  # noqa: E402

tf.disable_eager_execution()
images, labels = tf.placeholder(tf.float32, [None, 32, 32, 3]), tf.placeholder(tf.int32, [None])
batch, times = tf.placeholder(tf.int32, [], name="batch"), tf.placeholder(tf.int32, [], name="times")
x, channels = images, 3


def convolved(x, number, channels=16):
    weights = tf.get_variable(f"w{number}", [3, 3, channels, 16], initializer=tf.keras.initializers.GlorotUniform(seed=number))
    return tf.nn.relu(tf.nn.conv2d(x, weights, 1, "SAME"))


for number in range(6):
    x, channels = convolved(x, number, channels), 16
    if model == "calls":
        trains = tf.placeholder_with_default(True, [])
        x = tf.cond(trains, lambda x=x, number=number: tf.nn.dropout(tf.tanh(x), rate=0.1, seed=number), lambda x=x: x)
if model == "calls":
    repeated = tf.get_variable("repeated", [16, 16], initializer=tf.keras.initializers.GlorotUniform(seed=9))
    x = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, tf.tanh(tf.tensordot(x, repeated, 1))), [tf.constant(0), x])[1]
if model == "fed":
    x += tf.random.stateless_normal([batch, 32, 32, 16], [1, 2])
    x = tf.while_loop(lambda i, _: i < times, lambda i, x: (i + 1, tf.tanh(x)), [tf.constant(0), x])[1]
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.reduce_mean(x, [1, 2])))
tf.train.MomentumOptimizer(0.01, 0.9).minimize(loss, global_step=tf.train.get_or_create_global_step())
config = tf_lms.session_config()
config.pluggable_device_options.per_process_gpu_memory_fraction = 1.0
config.inter_op_parallelism_threads = config.intra_op_parallelism_threads = 1
said = {"values": {batch: 8}, "iterations": 3} if model == "fed" else {}
if "PROFILE" in os.environ:
    said["device_profile"] = os.environ["PROFILE"]
hooks = [tf_lms.LMSHook(gpu_memory=budget, memory_ratio=1.0, batch_size=8, strict=True, **said)] if budget else []
train_op = tf.get_collection("train_op")[0]
told = {"losses": [], "batches": []}
try:
    with tf.train.MonitoredTrainingSession(hooks=hooks, config=config) as session:
        for step in range(4):
            random = np.random.default_rng(step)
            feeds = {images: random.random((8, 32, 32, 3)), labels: random.integers(0, 10, 8), batch: 8, times: 3}
            soft.reset()
            before = soft.counters()
            told["losses"].append(float(session.run([loss, train_op], feeds)[0]))
            after = soft.counters()
            told["batches"].append([{"peak": after["peak"], "in": after["in"] - before["in"], "out": after["out"] - before["out"]}])
        values = session.run(tf.global_variables())
        told["variables"] = [hashlib.sha256(np.asarray(value).tobytes()).hexdigest()[:16] for value in values]
except tf.errors.ResourceExhaustedError as error:
    told["out_of_memory"] = error.message.splitlines()[0]
if hooks:
    report = hooks[0].report
    told["report"] = {"verdict": report.verdict, "devices": report.devices, "changed": report.changed}
print(json.dumps(told))
