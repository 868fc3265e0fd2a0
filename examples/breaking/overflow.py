"""A normalisation that squares its input: its middle exceeds fp16's largest number, 65504, its output does not.

In fp32 the squares reach 3e6 and the output is around 1. In fp16 (PyTorch 2.14.1, on a CPU) the squares are infinite,
their reciprocal root is 0, and the output is finite, plausible and wrong: only the bias of the head is left of it. bf16
has fp32's range and is right to 1e-2. The first operator that leaves the finite numbers is `pow` in module `norm`.
"""

import torch


class RootMeanSquare(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        power = x.pow(2).mean(-1, keepdim=True)
        return x * torch.rsqrt(power + 1e-6) * self.weight


class Loud(torch.nn.Module):
    """Features of some hundreds, as unnormalised sensors or deep residual streams have them."""

    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(16, 32)
        self.norm = RootMeanSquare(32)
        self.head = torch.nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.norm(1000 * self.encoder(x)))


def network():
    return Loud(), torch.randn(4, 16), {"x": {0: ("batch", 1, 4, 8)}}
