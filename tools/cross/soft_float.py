"""Floating point in a program for a processor without it: every operation calls a function known by its name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SOFT_FLOAT = re.compile(
    r"""
    __aeabi_[cdf]\w*                                       # Arm's names: __aeabi_fadd, __aeabi_dmul, __aeabi_cfcmple
  | __aeabi_u?[il]2[df]                                    # from integers: __aeabi_i2f, __aeabi_ul2d
  | __aeabi_h2[df]\w*
  | __(?:add|sub|mul|div|neg|powi|eq|ne|lt|le|gt|ge|cmp|unord)[shdxt]f\w*  # GCC's: __addsf3, __muldf3, __powidf2
  | __float(?:un)?[sdt]i[shdxt]f                           # __floatsisf
  | __fix(?:uns)?[shdxt]f[sdt]i                            # __fixdfsi
  | __(?:extend|trunc)[shdxt]f[shdxt]f2
    """,
    re.VERBOSE,
)
"""The only list of them. Arm's integer helpers (__aeabi_lmul, __aeabi_uldivmod) are none."""


def soft_float_symbols(program: Path, nm: str = "arm-none-eabi-nm") -> list[str]:
    """Soft-float symbols that a program or an object holds or calls."""
    listed = subprocess.run([nm, str(program)], check=True, capture_output=True, text=True).stdout
    names = {line.split()[-1] for line in listed.splitlines() if line.strip()}
    return sorted(name for name in names if SOFT_FLOAT.fullmatch(name))
