"""len(x) instead of x.shape[0]: right for every batch in PyTorch, frozen at the example's batch by the export.

Seen with torch 2.14.1, ONNX Runtime 1.32.0 and OpenVINO 2026.4.1:
- The dynamo exporter, asked for a dynamic batch, reports success and writes an input of the fixed shape [4, 6, 32]: it
  refines the asked range to the one size that len() allowed. Both engines refuse every other batch.
- The TorchScript exporter keeps the input dynamic and freezes the Reshape to (4, -1, 4, 8). Both engines answer batch 2
  and batch 8 with an output of shape [4, 32], and fail at batches where the element count cannot be split by 4.
"""

import torch


class Pooled(torch.nn.Module):
    """Projects a sequence, splits it into heads and averages over time."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.project = torch.nn.Linear(32, 32)

    def forward(self, x):
        batch = len(x)
        split = self.project(x).reshape(batch, -1, self.heads, 8)
        return split.mean(1).flatten(1)


def network():
    return Pooled(), torch.randn(4, 6, 32), {"x": {0: ("batch", 1, 4, 8)}}
