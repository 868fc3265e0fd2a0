"""A Python branch on the batch size: the exported graph has only the side that the example took.

Seen with torch 2.14.1, ONNX Runtime 1.32.0 and OpenVINO 2026.4.1:
- The dynamo exporter reports success and a dynamic batch of 1..16. It never considers size 1 ("batch > 1" is taken for
  granted, without a guard or a warning), so the `if` below is gone and its body always runs.
- Batch 2 and up agree with PyTorch. At batch 1 the standard deviation of one sample is NaN, and so is every output of
  both engines, where PyTorch gives finite numbers.
- The TorchScript exporter makes the same graph; it at least warns about the line.
- A branch on another size (`> 4`) behaves alike: PyTorch narrows the asked range to the example's side by itself, and
  neither the file nor the output of the exporter tells.
"""

import torch


class Standardised(torch.nn.Module):
    """Standardises features over the batch, which makes sense only when there is more than one sample."""

    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU())
        self.head = torch.nn.Linear(32, 4)

    def forward(self, x):
        features = self.encoder(x)
        if features.shape[0] > 1:
            features = (features - features.mean(0)) / (features.std(0) + 1e-3)
        return self.head(features)


def network():
    return Standardised(), torch.randn(8, 16), {"x": {0: ("batch", 1, 8, 16)}}
