"""everbit: binary neural networks that keep learning on small devices, in integers.

    learner = everbit.Learner.open("birealnet18", memory="16MB")
    learner.partial_fit(images, labels)
    learner.predict(images)
"""

from everbit.learner.learner import Learner
from everbit.learner.settings import Settings
from everbit.quantize.widths import Widths

__all__ = ["Learner", "Settings", "Widths"]
__version__ = "0.1.0"
