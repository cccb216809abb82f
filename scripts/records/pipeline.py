"""The tf.data pipeline: from files to batches, without end, the same in each run."""

import tensorflow as tf

SHUFFLED = 1024  # records that are in memory to draw from
FILES_AT_A_TIME = 16
PREFETCHED = 2  # batches that are ready before they are wanted


def dataset(files, layout, form, batch):
    """Batches of the tensors that the layout makes, by name, in an order that the seed alone decides."""
    names = tf.data.Dataset.from_tensor_slices(files).shuffle(len(files), form.seed)
    records = names.interleave(tf.data.TFRecordDataset, cycle_length=min(FILES_AT_A_TIME, len(files)))
    records = records.shuffle(SHUFFLED, form.seed + 1).repeat()

    def prepare(number, record):
        return layout.prepare(tf.io.parse_single_example(record, layout.features), number, form)

    # What is random of an example comes from its number, so that it matters not which thread prepares it.
    examples = records.enumerate().map(prepare, tf.data.AUTOTUNE, deterministic=True)
    return examples.batch(batch, drop_remainder=True).prefetch(PREFETCHED)


def iterator(files, layout, form, batch):
    """An iterator that has to be initialized. Ops are made where the caller's device scope says."""
    return tf.compat.v1.data.make_initializable_iterator(dataset(files, layout, form, batch))
