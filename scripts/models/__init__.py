"""The models that can be exported, one file each."""

from . import (
    bert,
    cond_cnn,
    ctc,
    deeplabv3plus,
    densenet,
    dynamic_rnn,
    efficientnet,
    gan,
    googlenet,
    gpt,
    isensee3d,
    keras_lstm,
    mnist_cnn,
    mobilenet,
    resnet50,
    static_lstm,
    unet3d,
    vit,
    while_rnn,
)

MODELS = {
    module.MODEL.name: module.MODEL
    for module in [
        resnet50,
        mobilenet,
        efficientnet,
        densenet,
        googlenet,
        deeplabv3plus,
        unet3d,
        isensee3d,
        mnist_cnn,
        cond_cnn,
        while_rnn,
        dynamic_rnn,
        static_lstm,
        ctc,
        keras_lstm,
        bert,
        gpt,
        vit,
        gan,
    ]
}
