"""From a model of the table to files: options, optimizer, formats, manifest, test runs."""

# The environment of a training run on the CPU that can be repeated: no algorithm that sums in a random order, and
# none of oneDNN's, which differ more from processor to processor. Only for running: TensorFlow's Python code builds
# other graphs when it finds the first of these set.
RUN_ENVIRONMENT = {"TF_DETERMINISTIC_OPS": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}
