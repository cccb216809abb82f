"""TFRecords as input: the layouts of their examples, the pipeline that reads them, the writing of new ones.

Everything of a pipeline depends on the files, the form and the seed alone, so that a training run can be repeated.
"""

from . import imagenet, voc, volumes

LAYOUTS = {layout.name: layout for layout in [imagenet.LAYOUT, voc.LAYOUT, volumes.LAYOUT]}
