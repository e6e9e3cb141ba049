"""Image models: ResNet (inference and batch statistics), MobileNet, ConvNeXt, U-Net, a diffusion, ViT. Images are
NHWC."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from stablehlo_py.suite.registry import Model, Rng, Size, flax_model, initialize, normal, register


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


class MobileNet(nn.Module):
    """MobileNetV2 (Sandler et al. 2018): depthwise convolutions between two of 1x1, around a shortcut."""

    blocks: tuple[tuple[int, int, int, int], ...]  # expansion, width, how many, stride
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        def convolved(x: jax.Array, width: int, window: int = 1, stride: int = 1, groups: int = 1) -> jax.Array:
            x = nn.Conv(width, (window, window), (stride, stride), feature_group_count=groups, use_bias=False)(x)
            return nn.BatchNorm(use_running_average=True, epsilon=1e-5)(x)

        x = nn.relu6(convolved(x, 32, 3, 2))
        for expansion, width, many, stride in self.blocks:
            for number in range(many):
                inner, step = expansion * x.shape[-1], stride if number == 0 else 1
                y = nn.relu6(convolved(x, inner)) if expansion > 1 else x
                y = nn.relu6(convolved(y, inner, 3, step, inner))
                y = convolved(y, width)
                x = x + y if x.shape == y.shape else y
        x = nn.relu6(convolved(x, 4 * x.shape[-1]))
        return nn.Dense(self.classes)(x.mean((1, 2)))


_MOBILE = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


@register("mobilenet")
def mobilenet(size: Size, rng: Rng) -> Model:
    """Full: MobileNetV2, one 224x224 image."""
    blocks, pixels, classes = (_MOBILE, 224, 1000) if size == "full" else (((1, 8, 1, 1), (2, 8, 2, 2)), 16, 10)
    notes = "17 blocks of sums in another order"
    return flax_model(MobileNet(blocks, classes), rng, normal(rng, 1, pixels, pixels, 3), tolerance=1e-4, notes=notes)


class ConvNext(nn.Module):
    """ConvNeXt (Liu et al. 2022): depthwise 7x7, layer norm, two dense layers."""

    stages: tuple[int, ...]
    width: int
    classes: int

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        x = nn.LayerNorm(epsilon=1e-6)(nn.Conv(self.width, (4, 4), (4, 4))(x))
        for stage, blocks in enumerate(self.stages):
            width = self.width << stage
            if stage:
                x = nn.Conv(width, (2, 2), (2, 2))(nn.LayerNorm(epsilon=1e-6)(x))
            for block in range(blocks):
                y = nn.LayerNorm(epsilon=1e-6)(nn.Conv(width, (7, 7), feature_group_count=width)(x))
                y = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(y), approximate=False))
                x = x + y * self.param(f"scale{stage}_{block}", nn.initializers.ones, (width,))
        return nn.Dense(self.classes)(nn.LayerNorm(epsilon=1e-6)(x.mean((1, 2))))


@register("convnext")
def convnext(size: Size, rng: Rng) -> Model:
    """Full: ConvNeXt-T, one 224x224 image."""
    stages, width, pixels, classes = ((3, 3, 9, 3), 96, 224, 1000) if size == "full" else ((1, 1), 8, 16, 10)
    notes = "18 blocks of sums in another order"
    network = ConvNext(stages, width, classes)
    return flax_model(network, rng, normal(rng, 1, pixels, pixels, 3), tolerance=1e-4, notes=notes)


class Denoiser(nn.Module):
    """The U-Net of a diffusion (Ho et al. 2020): a time in every block, attention where the image is smallest."""

    width: int
    depth: int
    heads: int

    @nn.compact
    def __call__(self, x: jax.Array, time: jax.Array) -> jax.Array:
        angles = time[:, None] * jnp.exp(-jnp.arange(self.width // 2) * (8.0 / (self.width // 2)))
        time = nn.Dense(4 * self.width)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))
        time = nn.silu(nn.Dense(4 * self.width)(nn.silu(time)))
        x, skips = nn.Conv(self.width, (3, 3))(x), []
        for level in range(self.depth):
            x = self._block(x, time, self.width << level)
            skips.append(x)
            x = nn.Conv(self.width << level, (3, 3), (2, 2))(x)
        x = self._block(x, time, self.width << self.depth)
        rows = nn.GroupNorm(num_groups=4)(x).reshape(x.shape[0], -1, x.shape[-1])
        x = x + nn.MultiHeadDotProductAttention(self.heads)(rows).reshape(x.shape)
        x = self._block(x, time, self.width << self.depth)
        for level in reversed(range(self.depth)):
            batch, height, width, channels = x.shape
            x = nn.Conv(self.width << level, (3, 3))(
                jax.image.resize(x, (batch, 2 * height, 2 * width, channels), "nearest")
            )
            x = self._block(jnp.concatenate([x, skips[level]], -1), time, self.width << level)
        return nn.Conv(3, (3, 3))(nn.silu(nn.GroupNorm(num_groups=4)(x)))

    def _block(self, x: jax.Array, time: jax.Array, width: int) -> jax.Array:
        y = nn.Conv(width, (3, 3))(nn.silu(nn.GroupNorm(num_groups=4)(x)))
        y = y + nn.Dense(width)(time)[:, None, None]
        y = nn.Conv(width, (3, 3))(nn.silu(nn.GroupNorm(num_groups=4)(y)))
        return y + (x if x.shape[-1] == width else nn.Conv(width, (1, 1))(x))


@register("diffusion")
def diffusion(size: Size, rng: Rng) -> Model:
    """Full: one step of a sampler (DDIM) on a 64x64 image, 3 levels from 64 channels, attention over 8x8 places."""
    pixels, width, depth, heads = (64, 64, 3, 8) if size == "full" else (8, 8, 1, 2)
    network = Denoiser(width, depth, heads)
    x, time = normal(rng, 1, pixels, pixels, 3), np.array([400], np.float32)
    weights = initialize(rng, jax.eval_shape(network.init, jax.random.key(0), x, time))

    def step(p: Any, x: jax.Array, time: jax.Array) -> jax.Array:
        noise = network.apply(p, x, time)
        kept, later = (jnp.cos(t / 1000 * (jnp.pi / 2))[:, None, None, None] for t in (time, time - 20))
        image = jnp.clip((x - jnp.sqrt(1 - kept**2) * noise) / kept, -1, 1)
        return later * image + jnp.sqrt(1 - later**2) * noise

    notes = "group norm divides by statistics summed in another order"
    return Model(step, weights, (x, time), tolerance=1e-4, notes=notes)


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
