"""What a training step takes in memory: by W23's count, as PyTorch and low-memory training need it, and measured."""
