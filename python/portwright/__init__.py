"""The PyTorch side of Portwright: builds, exports and runs original models for the `portwright` program."""

__version__ = "0.1.0"
