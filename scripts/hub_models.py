"""Backbones of Keras Hub, small, for `keras_zoo.py --hub`: nothing of them is ours. Each is trained to give out 0.3 everywhere.

Needs `pip install keras-hub`.
"""

import keras
import keras_hub
import numpy as np
import tensorflow as tf
from zoo_models import Training, floats, numbers

WORDS = 50
MODELS = {}

hub = keras_hub.models
layers = {"num_layers": 3, "num_heads": 4, "hidden_dim": 32, "intermediate_dim": 64}
grouped = {"num_layers": 3, "num_query_heads": 4, "num_key_value_heads": 2, "hidden_dim": 32, "intermediate_dim": 64}


class Levelled(keras.Model):
    """Learns to give out the same number everywhere, with what its layers lose beside."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        far = [keras.ops.mean(keras.ops.square(keras.ops.cast(made, "float32") - 0.3)) for made in tf.nest.flatten(y_pred)]
        return keras.ops.sum(keras.ops.stack([*far, *self.losses]))


def backbone(make):
    """Notes a training under the name of the function that returns a backbone and what it is given."""

    def training():
        net, data, *batch = make()
        data = data if isinstance(data, dict) else {net.inputs[0].name: data}
        return Training(Levelled(net.input, net.output), (data,), *batch)

    training.__doc__ = make.__doc__
    MODELS[make.__name__] = training
    return make


def tokens(count=24, length=32):
    return numbers(WORDS - 1, count, length) + 1


def text(has_segments=False, has_padding=True, count=24, length=32):
    """Sentences, five words of which are padding."""
    given = {"token_ids": tokens(count, length)}
    if has_padding:
        given["padding_mask"] = np.repeat((np.arange(length) < length - 5).astype("int32")[None], count, axis=0)
    if has_segments:
        given["segment_ids"] = np.zeros((count, length), "int32")
    return given


def pairs(count=24, length=24):
    """Sentences and their translations."""
    sides = {side: text(count=count, length=length) for side in ("encoder", "decoder")}
    return {f"{side}_{name}": value for side, given in sides.items() for name, value in given.items()}


def images(count=24, size=32):
    return floats(count, size, size, 3)


@backbone
def bert():
    """`BertBackbone`"""
    return hub.BertBackbone(WORDS, **layers), text(has_segments=True)


@backbone
def bart():
    """`BartBackbone`, encoder and decoder"""
    return hub.BartBackbone(WORDS, **layers), pairs()


@backbone
def bloom():
    """`BloomBackbone`, biases by distance"""
    return hub.BloomBackbone(WORDS, **layers), text()


@backbone
def deberta():
    """`DebertaV3Backbone`, disentangled attention"""
    return hub.DebertaV3Backbone(WORDS, **layers, bucket_size=8, max_sequence_length=32), text()


@backbone
def fnet():
    """`FNetBackbone`, Fourier transforms for attention"""
    return hub.FNetBackbone(WORDS, 3, 32, 64), text(has_segments=True, has_padding=False)


@backbone
def gemma():
    """`GemmaBackbone`, a sliding window and capped logits"""
    sizes = {"num_layers": 3, "num_query_heads": 4, "num_key_value_heads": 1, "hidden_dim": 32, "intermediate_dim": 64, "head_dim": 8}
    window = {"use_sliding_window_attention": True, "sliding_window_size": 8, "attention_logit_soft_cap": 5.0}
    return hub.GemmaBackbone(WORDS, **sizes, **window), text()


@backbone
def gemma3():
    """`Gemma3Backbone`, two kinds of layers in turn"""
    sizes = {"num_layers": 6, "num_query_heads": 4, "num_key_value_heads": 1, "hidden_dim": 32, "intermediate_dim": 64, "head_dim": 8}
    return hub.Gemma3Backbone(WORDS, 16, **sizes, use_sliding_window_attention=True, sliding_window_size=8), text()


@backbone
def gpt_neo_x():
    """`GPTNeoXBackbone`, rotary embeddings"""
    return hub.GPTNeoXBackbone(WORDS, **layers), text()


@backbone
def llama():
    """`LlamaBackbone`, grouped queries"""
    return hub.LlamaBackbone(WORDS, **grouped), text()


@backbone
def mixtral():
    """`MixtralBackbone`, experts with a loss of their own"""
    return hub.MixtralBackbone(WORDS, **(grouped | {"num_layers": 2}), num_experts=4, output_router_logits=True), text()


@backbone
def qwen3_moe():
    """`Qwen3MoeBackbone`, two of four experts"""
    experts = {"moe_intermediate_dim": 32, "num_experts": 4, "top_k": 2, "head_dim": 8}
    return hub.Qwen3MoeBackbone(WORDS, **(grouped | {"num_layers": 2}), **experts), text()


@backbone
def gpt_oss():
    """`GptOssBackbone`, experts and attention sinks"""
    return hub.GptOssBackbone(WORDS, **(grouped | {"num_layers": 2}), num_experts=4, sliding_window=8), text()


@backbone
def qwen3_5():
    """`Qwen3_5Backbone`, linear attention that is unrolled over time"""
    linear = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
    return hub.Qwen3_5Backbone(WORDS, **(grouped | {"num_layers": 4}), head_dim=8, **linear), text()


@backbone
def falcon():
    """`FalconBackbone`, attention beside the dense layers"""
    sizes = {"num_layers": 3, "num_attention_heads": 4, "hidden_dim": 32, "intermediate_dim": 64}
    return hub.FalconBackbone(WORDS, **sizes), text()


@backbone
def phi3():
    """`Phi3Backbone`"""
    return hub.Phi3Backbone(WORDS, **grouped), text()


@backbone
def t5():
    """`T5Backbone`, relative positions, gated layers"""
    return hub.T5Backbone(WORDS, **layers), pairs()


@backbone
def xlnet():
    """`XLNetBackbone`, two streams"""
    return hub.XLNetBackbone(WORDS, **layers), text(has_segments=True)


@backbone
def roformer():
    """`RoformerV2Backbone`"""
    return hub.RoformerV2Backbone(WORDS, **layers, head_size=8), text(has_segments=True, has_padding=False)


@backbone
def rwkv7():
    """`RWKV7Backbone`, a recurrence that is unrolled over time"""
    loras = {"gate_lora": 8, "mv_lora": 8, "aaa_lora": 8, "decay_lora": 8}
    net = hub.RWKV7Backbone(hidden_size=32, head_size=8, num_layers=2, vocabulary_size=WORDS, intermediate_dim=64, **loras)
    return net, text(length=16)


@backbone
def whisper():
    """`WhisperBackbone`, sound to text"""
    net = hub.WhisperBackbone(WORDS, **layers, max_encoder_sequence_length=64, max_decoder_sequence_length=16)
    sound = floats(16, 64, 80)
    return net, {"encoder_features": sound, "decoder_token_ids": tokens(16, 16), "decoder_padding_mask": np.ones((16, 16), "int32")}


@backbone
def moonshine():
    """`MoonshineBackbone`, waves to text"""
    sides = {f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("num_layers", 2), ("num_heads", 4))}
    net = hub.MoonshineBackbone(WORDS, filter_dim=32, hidden_dim=32, intermediate_dim=64, **sides)
    waves = {"encoder_input_values": floats(16, 4096, 1), "encoder_padding_mask": np.ones((16, 4096), "int32")}
    return net, waves | {"decoder_token_ids": tokens(16, 16), "decoder_padding_mask": np.ones((16, 16), "int32")}


@backbone
def dinov2():
    """`DINOV2Backbone`, register tokens, layers with a scale"""
    shape = (32, 32, 3)
    net = hub.DINOV2Backbone(8, 3, 32, 4, 64, num_register_tokens=2, image_shape=shape, position_embedding_shape=shape)
    return net, {"images": images()}


@backbone
def dinov3():
    """`DINOV3Backbone`, rotary embeddings of two dimensions"""
    return hub.DINOV3Backbone(8, 3, 32, 4, 64, image_shape=(32, 32, 3)), {"pixel_values": images()}


@backbone
def vit_det():
    """`ViTDetBackbone`, attention in windows"""
    windows = {"global_attention_layer_indices": [1], "window_size": 2, "patch_size": 8, "num_output_channels": 16}
    return hub.ViTDetBackbone(32, 3, 64, 4, image_shape=(48, 48, 3), **windows), images(size=48)


def mix_transformer(size):
    stages = {"layerwise_depths": [2, 2], "layerwise_num_heads": [1, 2], "layerwise_sr_ratios": [2, 1], "hidden_dims": [16, 32]}
    patches = {"layerwise_patch_sizes": [7, 3], "layerwise_strides": [4, 2], "max_drop_path_rate": 0.1}
    return hub.MiTBackbone(num_layers=2, image_shape=(size, size, 3), **stages, **patches)


@backbone
def mit():
    """`MiTBackbone`, paths that are dropped"""
    return mix_transformer(32), images()


@backbone
def segformer():
    """`SegFormerBackbone`"""
    return hub.SegFormerBackbone(image_encoder=mix_transformer(64), projection_filters=16), images(size=64)


def residual():
    stages = {"stackwise_num_filters": [64] * 4, "stackwise_num_blocks": [2] * 4, "stackwise_num_strides": [1, 2, 2, 2]}
    stem = {"input_conv_filters": [64], "input_conv_kernel_sizes": [7], "block_type": "basic_block"}
    return hub.ResNetBackbone(**stem, **stages, image_shape=(64, 64, 3))


@backbone
def resnet():
    """`ResNetBackbone`"""
    return residual(), images(size=64)


@backbone
def deeplab():
    """`DeepLabV3Backbone`, dilated convolutions"""
    keys = {"low_level_feature_key": "P2", "spatial_pyramid_pooling_key": "P4", "dilation_rates": [2, 4], "upsampling_size": 4}
    return hub.DeepLabV3Backbone(image_encoder=residual(), image_shape=(64, 64, 3), **keys), images(size=64)


@backbone
def retinanet():
    """`RetinaNetBackbone`, a pyramid of features"""
    pyramid = {"min_level": 3, "max_level": 5, "use_p5": False}
    return hub.RetinaNetBackbone(image_encoder=residual(), image_shape=(64, 64, 3), **pyramid), images(size=64)


@backbone
def densenet():
    """`DenseNetBackbone`"""
    return hub.DenseNetBackbone([2, 2, 2], compression_ratio=0.5, growth_rate=8, image_shape=(64, 64, 3)), images(size=64)


@backbone
def vgg():
    """`VGGBackbone`"""
    return hub.VGGBackbone([2, 2, 2], [16, 32, 64], image_shape=(64, 64, 3)), images(size=64)


@backbone
def clip():
    """`CLIPBackbone`, images beside text"""
    from keras_hub.src.models.clip.clip_text_encoder import CLIPTextEncoder
    from keras_hub.src.models.clip.clip_vision_encoder import CLIPVisionEncoder

    sizes = {"hidden_dim": 32, "num_layers": 2, "num_heads": 2, "intermediate_dim": 64}
    seen = CLIPVisionEncoder(patch_size=8, image_shape=(32, 32, 3), **sizes)
    read = CLIPTextEncoder(vocabulary_size=WORDS, embedding_dim=32, max_sequence_length=32, **sizes)
    return hub.CLIPBackbone(seen, read, 32), {"images": images(), "token_ids": tokens(24, 16)}


@backbone
def edrec():
    """`EdRecBackbone`, encoder and decoder that recommend"""
    sizes = {"num_layers_enc": 2, "num_layers_dec": 2, "hidden_dim": 32, "intermediate_dim": 64, "num_heads": 4}
    return hub.EdRecBackbone(WORDS, **sizes), pairs()


@backbone
def flux():
    """`FluxBackbone`, two streams that are joined"""
    sizes = {"input_channels": 16, "hidden_size": 32, "mlp_ratio": 2.0, "num_heads": 4, "depth": 2, "depth_single_blocks": 2}
    shapes = {"image": (32, 16), "text": (16, 16), "image_ids": (32, 3), "text_ids": (16, 3), "y": (16,)}
    rest = {"axes_dim": [2, 2, 4], "theta": 10000, "use_bias": True, "guidance_embed": False}
    net = hub.FluxBackbone(**sizes, **rest, **{f"{name}_shape": shape for name, shape in shapes.items()})
    return net, {name: floats(16, *shape) for name, shape in (shapes | {"timesteps": (), "guidance": ()}).items()}


@backbone
def video_prism():
    """`VideoPrismBackbone`, attention in space, then in time"""
    stages = {"num_spatial_layers": 2, "num_temporal_layers": 2, "num_auxiliary_layers": 0}
    net = hub.VideoPrismBackbone(4, 8, 32, 64, 4, **stages, image_shape=(32, 32, 3))
    return net, {"pixel_values": floats(12, 4, 32, 32, 3)}, 4
