"""everbit: binary neural networks that keep learning on small devices, in integers.

learner = everbit.Learner.open("birealnet18", memory="16MB")
learner.partial_fit(images, labels)
learner.predict(images)
"""

from everbit.openmp import load_engine

load_engine()

from everbit.learner.learner import Learner  # noqa: E402 - behind load_engine()
from everbit.learner.settings import Settings  # noqa: E402
from everbit.quantize.widths import Widths  # noqa: E402

__all__ = ["Learner", "Settings", "Widths"]
__version__ = "0.1.0"
