"""The models that can be exported, one file each."""

from . import cond_cnn, mnist_cnn, resnet50, while_rnn

MODELS = {
    module.MODEL.name: module.MODEL
    for module in [resnet50, mnist_cnn, cond_cnn, while_rnn]
}
