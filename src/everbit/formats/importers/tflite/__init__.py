"""TensorFlow Lite files, with the operators of Larq Compute Engine, as PyTorch networks."""
