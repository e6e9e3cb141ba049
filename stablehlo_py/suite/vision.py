"""Image models: ResNet (inference and batch statistics), U-Net, ViT. Images are NHWC."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from stablehlo_py.suite.registry import Model, Rng, Size, flax_model, normal, register


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions, or 1x1-3x3-1x1 with a fourfold expansion (`bottleneck`), around a shortcut."""

    width: int
    stride: int
    bottleneck: bool
    train: bool

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        norm = partial(nn.BatchNorm, use_running_average=not self.train, epsilon=1e-5)
        convolution = partial(nn.Conv, use_bias=False)
        stride = (self.stride, self.stride)
        if self.bottleneck:
            out = 4 * self.width
            y = nn.relu(norm()(convolution(self.width, (1, 1))(x)))
            y = nn.relu(norm()(convolution(self.width, (3, 3), stride)(y)))
            y = norm()(convolution(out, (1, 1))(y))
        else:
            out = self.width
            y = nn.relu(norm()(convolution(self.width, (3, 3), stride)(x)))
            y = norm()(convolution(self.width, (3, 3))(y))
        if x.shape != y.shape:
            x = norm()(convolution(out, (1, 1), stride)(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    """ResNet (He et al. 2015) for NHWC images."""

    stages: tuple[int, ...]
    width: int
    bottleneck: bool
    classes: int
    train: bool = False

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.Conv(self.width, (7, 7), (2, 2), padding=[(3, 3), (3, 3)], use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=not self.train, epsilon=1e-5)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
        for stage, blocks in enumerate(self.stages):
            for block in range(blocks):
                stride = 2 if stage > 0 and block == 0 else 1
                x = ResidualBlock(self.width << stage, stride, self.bottleneck, self.train)(x)
        return nn.Dense(self.classes)(x.mean((1, 2)))


def _resnet(size: Size, rng: Rng, stages: tuple[int, ...], bottleneck: bool, batch: int, train: bool = False) -> Model:
    width, pixels, classes = (64, 224, 1000) if size == "full" else (8, 32, 10)
    network = ResNet(stages if size == "full" else (1, 1), width, bottleneck, classes, train)
    x = normal(rng, batch if size == "full" else 2, pixels, pixels, 3)
    notes = "sums over thousands of terms in another order, through tens of layers"
    model = flax_model(network, rng, x, tolerance=1e-4, notes=notes)
    return replace(model, function=partial(network.apply, mutable=["batch_stats"])) if train else model


@register("resnet18")
def resnet18(size: Size, rng: Rng) -> Model:
    """Full: ResNet-18, one 224x224 image."""
    return _resnet(size, rng, (2, 2, 2, 2), bottleneck=False, batch=1)


@register("resnet50")
def resnet50(size: Size, rng: Rng) -> Model:
    """Full: ResNet-50, one 224x224 image."""
    return _resnet(size, rng, (3, 4, 6, 3), bottleneck=True, batch=1)


@register("resnet18-batch-statistics")
def resnet18_batch_statistics(size: Size, rng: Rng) -> Model:
    """Full: ResNet-18 with training-mode batch norm, 4 images of 224x224; also returns the new running statistics."""
    return _resnet(size, rng, (2, 2, 2, 2), bottleneck=False, batch=4, train=True)


class UNet(nn.Module):
    """A U-Net with group norm, SiLU and transposed convolutions on the way up."""

    width: int
    depth: int
    channels: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        skips = []
        for level in range(self.depth):
            x = self._block(x, self.width << level)
            skips.append(x)
            x = nn.Conv(self.width << level, (3, 3), (2, 2))(x)
        x = self._block(x, self.width << self.depth)
        for level in reversed(range(self.depth)):
            x = nn.ConvTranspose(self.width << level, (2, 2), (2, 2))(x)
            x = self._block(jnp.concatenate([x, skips[level]], -1), self.width << level)
        return nn.Conv(self.channels, (1, 1))(x)

    def _block(self, x: jax.Array, width: int) -> jax.Array:
        for _ in range(2):
            x = nn.silu(nn.GroupNorm(num_groups=4)(nn.Conv(width, (3, 3))(x)))
        return x


@register("unet")
def unet(size: Size, rng: Rng) -> Model:
    """Full: one 128x128 image, 3 levels from 32 channels."""
    pixels, width, depth = (128, 32, 3) if size == "full" else (16, 8, 2)
    network = UNet(width, depth, channels=3)
    notes = "group norm divides by statistics summed in another order"
    return flax_model(network, rng, normal(rng, 1, pixels, pixels, 3), tolerance=1e-4, notes=notes)


@register("vit")
def vit(size: Size, rng: Rng) -> Model:
    """Full: ViT-B/16 (Hugging Face Flax), one 224x224 image (NCHW, as that model takes it)."""
    from transformers import FlaxViTForImageClassification, ViTConfig

    from stablehlo_py.suite.language import hugging_face

    if size == "full":
        config = ViTConfig(num_labels=1000)
    else:
        config = ViTConfig(32, 2, 2, 64, image_size=16, patch_size=8, num_labels=10)
    network, parameters = hugging_face(FlaxViTForImageClassification, config, rng)

    def function(p: Any, pixels: jax.Array) -> jax.Array:
        return network(pixels, params=p).logits

    x = normal(rng, 1, 3, config.image_size, config.image_size)
    notes = "12 layers of sums in another order"
    return Model(function, parameters, (x,), tolerance=1e-4, notes=notes)
