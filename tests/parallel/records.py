"""Small training graphs that read files by themselves: records.py FOLDER

Each is FOLDER/NAME.meta. Four files of four numbers: those of file f are all f. A weight that begins at 0 goes down by the mean of
each batch of four, and the loss is the weight times that mean.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()
FILES, NUMBERS = 4, 4


def numbers(folder):
    files = [str(folder / f"{file}.tfrecord") for file in range(FILES)]
    data = tf.data.Dataset.from_tensor_slices(files).flat_map(tf.data.TFRecordDataset)
    data = data.map(lambda record: tf.reshape(tf.io.decode_raw(record, tf.float32), []))
    return data.batch(NUMBERS, drop_remainder=True).repeat().prefetch(1)


def initialized(folder):
    iterator = v1.data.make_initializable_iterator(numbers(folder))
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    return iterator


def one_shot(folder):
    return v1.data.make_one_shot_iterator(numbers(folder))


def hidden(folder):
    """An iterator that whoever feeds its name chooses."""
    data = numbers(folder)
    handle = v1.placeholder_with_default("none", [], "handle")
    return v1.data.Iterator.from_string_handle(handle, v1.data.get_output_types(data), v1.data.get_output_shapes(data))


def main(folder):
    for file in range(FILES):
        with tf.io.TFRecordWriter(str(folder / f"{file}.tfrecord")) as writer:
            for _ in range(NUMBERS):
                writer.write(np.float32(file).tobytes())
    for make in (initialized, one_shot, hidden):
        with tf.Graph().as_default():
            v1.set_random_seed(7)  # some iterators ask for one
            batch = make(folder).get_next()
            weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer(), use_resource=True)
            loss = tf.reduce_mean(weight * batch, name="loss")
            # Once more than the optimizer does, as many programs do.
            v1.add_to_collection("train_op", v1.train.GradientDescentOptimizer(1.0).minimize(loss))
            v1.add_to_collection("losses", loss)
            v1.add_to_collection("init_op", v1.global_variables_initializer())
            saver = v1.train.Saver()
            v1.train.export_meta_graph(str(folder / f"{make.__name__}.meta"), saver_def=saver.saver_def, clear_extraneous_savers=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
