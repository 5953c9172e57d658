"""Block of EfficientNet: 1 x 1 expansion, 5 x 5 depthwise convolution, squeeze-and-excite gate, 1 x 1 projection; SiLU throughout."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2
IN_CHANNELS = 24
OUT_CHANNELS = 40
INNER = 144
SQUEEZED = 6
HEIGHT = 40
WIDTH = 40
STRIDE = 2
SIZES = {
    "small": {"IN_CHANNELS": 12, "OUT_CHANNELS": 20, "INNER": 36, "SQUEEZED": 4, "HEIGHT": 20, "WIDTH": 20},
    "held_out": {"BATCH": 3, "IN_CHANNELS": 11, "OUT_CHANNELS": 17, "INNER": 37, "SQUEEZED": 5, "HEIGHT": 19, "WIDTH": 21},
}


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    norm = nn.BatchNorm2d(outputs)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias)
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.5, 2.0)
    conv = nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, norm)


class Model(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, inner: int, squeezed: int, stride: int):
        super().__init__()
        self.expand = convolution(in_channels, inner, 1)
        self.depthwise = convolution(inner, inner, 5, stride, groups=inner)
        self.squeeze = nn.Linear(inner, squeezed)
        nn.init.normal_(self.squeeze.bias)
        self.excite = nn.Linear(squeezed, inner)
        nn.init.normal_(self.excite.weight)
        self.project = convolution(inner, out_channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = F.silu(self.expand(x))
        out = F.silu(self.depthwise(out))
        gate = torch.sigmoid(self.excite(F.silu(self.squeeze(out.mean(dim=(2, 3))))))
        return self.project(out * gate[:, :, None, None])


def get_inputs():
    return [torch.randn(BATCH, IN_CHANNELS, HEIGHT, WIDTH) * 2]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, INNER, SQUEEZED, STRIDE]
