"""A head that is initialised to zero and was never trained: whatever goes in, the output is the same.

Both exporters and both engines reproduce it exactly, at every batch and every precision: the largest difference is 0.
That is no evidence of anything, since a broken encoder would agree as well.
"""

import torch


class ZeroHead(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 32))
        self.head = torch.nn.Linear(32, 4)
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)

    def forward(self, x):
        return self.head(self.encoder(x))


def network():
    return ZeroHead(), torch.randn(4, 16), {"x": {0: ("batch", 1, 4, 8)}}
