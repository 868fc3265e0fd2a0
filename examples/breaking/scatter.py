"""Custom indexing that becomes ScatterND, as point-cloud networks write points into a grid.

Seen with torch 2.14.1, ONNX Runtime 1.32.0 and OpenVINO 2026.4.1 on a CPU. Plain forms are right everywhere: negative
and duplicate indices, boolean masks (empty ones too), slices, dynamic numbers of points, accumulate=True on few rows.

network   Indices of type int32. Both exporters pass them on to ScatterND, whose indices must be int64: the file is not
          valid ONNX. ONNX Runtime refuses to load it and names the node; OpenVINO loads it and is right.
pooled    accumulate=True with many points a cell. The graph is right; ONNX Runtime with two threads loses updates
          (rows are added by several threads at once): wrong by up to 4, in some runs or in all, and right with one
          thread. OpenVINO is right. The TorchScript exporter forgets `accumulate`: the last point of a cell wins, wrong
          by 14 on every engine.
averaged  scatter_reduce with "mean". ONNX has no such reduction; the dynamo exporter writes a ScatterElements that
          overwrites instead, without a warning: wrong by about 1 on both engines. TorchScript refuses.
counted   64-bit sums. OpenVINO computes integers in 32 bits: sums beyond 2**31 are wrong. ONNX Runtime is right. The
          TorchScript exporter forgets `accumulate` here too.
"""

import torch


class Canvas(torch.nn.Module):
    """Writes the features of each point into its cell. The cells come as int32, as voxelisers give them."""

    def __init__(self, side=8, width=16):
        super().__init__()
        self.side, self.width = side, width
        self.encoder = torch.nn.Linear(4, width)
        self.head = torch.nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, points, cells):
        canvas = points.new_zeros(self.side * self.side, self.width)
        canvas[cells] = self.encoder(points)
        return self.head(canvas.t().reshape(1, self.width, self.side, self.side))


class Pooled(torch.nn.Module):
    """Adds up the features of all points of a cell: many points share one."""

    def __init__(self, cells=1000, width=64):
        super().__init__()
        self.cells = cells
        self.encoder = torch.nn.Linear(4, width)

    def forward(self, points, cells):
        features = self.encoder(points)
        grid = features.new_zeros(self.cells, features.shape[1])
        return grid.index_put((cells,), features, accumulate=True)


class Averaged(torch.nn.Module):
    """Averages the features of all points of a cell with scatter_reduce."""

    def __init__(self, cells=8, width=16):
        super().__init__()
        self.cells = cells
        self.encoder = torch.nn.Linear(4, width)

    def forward(self, points, cells):
        features = self.encoder(points)
        grid = features.new_zeros(self.cells, features.shape[1])
        return grid.scatter_reduce(0, cells[:, None].expand_as(features), features, "mean", include_self=False)


class Counted(torch.nn.Module):
    """Adds up 64-bit time stamps for each cell."""

    def forward(self, stamps, cells):
        return torch.zeros(8, dtype=torch.int64).index_put((cells,), stamps, accumulate=True)


def network():
    cells = torch.randperm(64)[:20].to(torch.int32)
    return Canvas(), (torch.randn(20, 4), cells)


def pooled():
    return Pooled(), (torch.randn(8192, 4), torch.randint(0, 1000, (8192,)))


def averaged():
    return Averaged(), (torch.randn(40, 4), torch.randint(0, 8, (40,)))


def counted():
    return Counted(), (torch.randint(2**33, 2**34, (20,)), torch.randint(0, 8, (20,)))
