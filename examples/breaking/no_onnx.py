"""An operator that ONNX cannot express: the median along an axis.

With torch 2.14.1 both exporters refuse: dynamo has no function for 'aten.median.dim', TorchScript none for
'aten::median'. (So it is with kthvalue, mode, cummax, searchsorted, digamma, erfinv and most of torch.linalg; cdist is
refused by dynamo alone, rfft, bincount and quantile by TorchScript alone.)
"""

import torch


class MedianPooled(torch.nn.Module):
    """Pools over time with the median, which outliers do not move."""

    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(16, 32)
        self.head = torch.nn.Linear(32, 4)

    def forward(self, x):
        pooled = self.encoder(x).median(dim=1).values
        return self.head(pooled)


def network():
    return MedianPooled(), torch.randn(4, 9, 16), {"x": {0: ("batch", 1, 4, 8)}}
