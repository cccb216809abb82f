"""Models of scripts/export_models.py with an open batch dimension: open_batch.py FOLDER [NAME ...]

Each is FOLDER/NAME.meta, made by one process: to begin with TensorFlow takes longer than to make a small graph.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import export_models  # noqa: E402
import tensorflow as tf  # noqa: E402

TRANSFORMER = "--layers 1 --hidden 16 --heads 2 --intermediate 32"
MODELS = {
    "cnn": "mnist_cnn --batch free",
    "bert": f"bert --batch free --size 16 {TRANSFORMER} --vocabulary 50 --positions 16",
    "gpt": f"gpt --batch free --size 16 {TRANSFORMER} --vocabulary 50 --positions 16",
    "vit": f"vit --batch free --size 16 --patch 4 {TRANSFORMER} --classes 10 --fp16 --dynamic-loss-scale",
    "googlenet": "googlenet --batch free --size 64 --classes 10 --learning-rate 3e-5",
}


def main(folder, *names):
    for name, flags in MODELS.items():
        if not names or name in names:
            with tf.Graph().as_default():
                export_models.main([*flags.split(), "-o", str(pathlib.Path(folder) / f"{name}.meta")])


if __name__ == "__main__":
    main(*sys.argv[1:])
