"""Architectures of binary networks, their pretraining, and the weights and models that come with the package.

Only `everbit.zoo.packaged` works without torch.
"""
