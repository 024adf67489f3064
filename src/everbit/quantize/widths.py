"""The four bit widths of a learner."""

from __future__ import annotations

from dataclasses import dataclass

from everbit.errors import ConfigurationError

ALLOWED = {
    "q_f": (8, 16, 32),
    "q_bin": (1, 4, 8, 16, 32),
    "q_nonbin": (8, 16, 32),
    "latent": (1, 2, 4, 6, 7, 8, 16),
}

IN_WORDS = (
    "Bits F,BIN,NONBIN,LATENT: of forward activations, latent weights of binary layers, gradients and other weights, "
    "replayed latents"
)
"""What the four numbers of an option are."""


@dataclass(frozen=True)
class Widths:
    """Bits of a learner's numbers (V24, section 3; docs/arithmetic.md, section 2).

    q_f: activations forward. q_bin: latent weights of binary layers. q_nonbin: gradients and all other trainable
    weights. latent: what the replay memory keeps of one value at the cut. Raises ConfigurationError for a width the
    engine does not have.
    """

    q_f: int = 8
    q_bin: int = 16
    q_nonbin: int = 16
    latent: int = 1

    def __post_init__(self) -> None:
        for name, allowed in ALLOWED.items():
            if getattr(self, name) not in allowed:
                choices = ", ".join(map(str, allowed))
                raise ConfigurationError(f"{name} is {getattr(self, name)} bits: choose one of {choices}")
        if self.q_f > self.q_nonbin:
            raise ConfigurationError(
                f"q_f is {self.q_f} and q_nonbin {self.q_nonbin} bits: "
                "gradients need at least as many bits as activations"
            )

    @classmethod
    def parse(cls, text: str) -> Widths:
        """From "F,BIN,NONBIN,LATENT", such as "8,16,16,1"."""
        try:
            q_f, q_bin, q_nonbin, latent = (int(part) for part in text.split(","))
        except ValueError:
            raise ConfigurationError(
                f"bit widths {text!r} are not four numbers: write F,BIN,NONBIN,LATENT, such as 8,16,16,1"
            ) from None
        return cls(q_f, q_bin, q_nonbin, latent)

    def __str__(self) -> str:
        return f"{self.q_f},{self.q_bin},{self.q_nonbin},{self.latent}"
