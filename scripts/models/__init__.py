"""The models that can be exported, one file each."""

from . import bert, cond_cnn, deeplabv3plus, googlenet, isensee3d, mnist_cnn, resnet50, unet3d, while_rnn

MODELS = {
    module.MODEL.name: module.MODEL
    for module in [resnet50, deeplabv3plus, unet3d, isensee3d, googlenet, mnist_cnn, cond_cnn, while_rnn, bert]
}
