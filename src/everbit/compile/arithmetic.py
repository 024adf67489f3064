"""Operators of a traced network on an activation and a constant: one multiply-add each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, fx

from everbit.compile.plain_steps import MultiplyAdd, RefusedError

Constant = Tensor | float


def _add(constant: Constant, behind: bool) -> MultiplyAdd:
    return MultiplyAdd(offset=constant)


def _subtract(constant: Constant, behind: bool) -> MultiplyAdd:
    return MultiplyAdd(offset=-constant) if behind else MultiplyAdd(-1.0, constant)


def _multiply(constant: Constant, behind: bool) -> MultiplyAdd:
    return MultiplyAdd(constant)


def _divide(constant: Constant, behind: bool) -> MultiplyAdd:
    if not behind:
        raise RefusedError("divides by an activation", "use layers that are listed in docs/compile.md")
    return MultiplyAdd(1.0 / constant)


_BY_NAME: dict[str, Callable[[Constant, bool], MultiplyAdd]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "div": _divide,
    "truediv": _divide,
    "iadd": _add,
    "isub": _subtract,
    "imul": _multiply,
    "itruediv": _divide,
}
ADDITIONS = (operator.add, operator.iadd, torch.add, "add", "add_")
"""Functions and methods that add two activations, or an activation and a constant."""


def operation(node: fx.Node) -> Callable[[Constant, bool], MultiplyAdd] | None:
    """The arithmetic of a node: of an operator, of a function of torch, or of a tensor's method; None of any other."""
    if node.op == "call_method":
        return _BY_NAME.get(str(node.target).removesuffix("_"))
    name = getattr(node.target, "__name__", "")
    owner = next((module for module in (operator, torch) if getattr(module, name, None) is node.target), None)
    return None if owner is None else _BY_NAME.get(name)


def multiply_add(node: fx.Node, first: Any, second: Any) -> MultiplyAdd | None:
    """The module of an operation with one constant operand; None where both are activations.

    Raises RefusedError for constants of another shape than one number, or one for each channel.
    """
    of = operation(node)
    assert of is not None
    behind = isinstance(first, fx.Node)
    constant = second if behind else first
    if isinstance(constant, fx.Node):
        return None
    if node.kwargs.get("alpha", 1) != 1:
        raise RefusedError("adds a multiple", "multiply first")
    if isinstance(constant, Tensor) and constant.numel() > 1:
        if constant.dim() < 3 or tuple(constant.shape[-2:]) != (1, 1) or constant.shape[-3] != constant.numel():
            raise RefusedError(f"takes a constant {list(constant.shape)}", "give it the shape [C, 1, 1]")
    elif not isinstance(constant, (Tensor, int, float)):
        raise RefusedError(f"takes the constant {constant!r}", "use numbers")
    return of(constant, behind)
