"""Brings a traced graph to one form of each step: modules, `operator.add` of two activations, and `torch.cat`."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from everbit.compile.arithmetic import ADDITIONS, multiply_add, operation
from everbit.compile.functional import FUNCTIONS, METHODS
from everbit.compile.plain_steps import RefusedError
from everbit.errors import CompileError

_CONCATENATIONS = (torch.concat, torch.concatenate)
_SIZES = ("size", "dim", "numel")  # methods that give numbers


def module_path(node: fx.Node) -> str:
    """The path of the module a node calls; of any other, the path of the module around it, and its own name."""
    if node.op == "call_module":
        return str(node.target)
    stack = list(node.meta.get("nn_module_stack", {}))
    return str(stack[-1]) if stack and stack[-1] else node.name


def canonical(graph: fx.GraphModule) -> fx.GraphModule:
    """The same network with modules in place of functions, methods and operators where there is one.

    Raises CompileError where a call means something that no module does.
    """
    _fold_constants(graph)
    for node in list(graph.graph.nodes):
        if _is_number(node):
            continue
        try:
            modules = _modules_of(graph, node)
        except RefusedError as error:
            raise CompileError(f"{module_path(node)}: {_name(node)} {error.wrong}; {error.cure}") from error
        except (TypeError, ValueError, AssertionError) as error:
            raise CompileError(
                f"{module_path(node)}: {_name(node)} has arguments that torch does not know ({error}); check the call"
            ) from error
        if modules is not None:
            _put_in_place(graph, node, modules)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


@torch.no_grad()
def _fold_constants(graph: fx.GraphModule) -> None:
    """What the network makes of its parameters and buffers alone, such as a scale in another shape, is a buffer."""
    for node in list(graph.graph.nodes):
        inputs = node.all_input_nodes
        if node.op not in ("call_function", "call_method") or not inputs or any(n.op != "get_attr" for n in inputs):
            continue
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda used: _value(graph, used))
        value = (
            node.target(*args, **kwargs)
            if callable(node.target)
            else getattr(args[0], node.target)(*args[1:], **kwargs)
        )
        if isinstance(value, Tensor):
            graph.register_buffer(f"constant_{node.name}", value)
            with graph.graph.inserting_before(node):
                node.replace_all_uses_with(graph.graph.get_attr(f"constant_{node.name}"))
            graph.graph.erase_node(node)


def _name(node: fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def _is_number(node: fx.Node) -> bool:
    """Whether a node is no activation but a size, or made of sizes."""
    if node.op == "call_method":
        return node.target in _SIZES
    if node.op != "call_function":
        return False
    if node.target is getattr:
        return node.args[1] in ("shape", "ndim")
    of_numbers = node.target is operator.getitem or operation(node) is not None
    return of_numbers and len(node.all_input_nodes) > 0 and all(map(_is_number, node.all_input_nodes))


def _modules_of(graph: fx.GraphModule, node: fx.Node) -> list[nn.Module] | None:
    """The modules that a step becomes, None where it stays as it is."""
    if node.op not in ("call_function", "call_method"):
        return None
    args: Any
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda used: _value(graph, used))
    if operation(node) is not None:
        first, second = (*args, *kwargs.values())[:2]
        made = multiply_add(node, first, second)
        if made is None and node.target in ADDITIONS:
            node.op, node.target, node.args, node.kwargs = "call_function", operator.add, (first, second), {}
        return None if made is None else [made]
    if node.target in _CONCATENATIONS:
        node.target = torch.cat
    steps = FUNCTIONS.get(node.target) if node.op == "call_function" else METHODS.get(str(node.target))
    if steps is None:
        return None
    options = {name: value for name, value in kwargs.items() if args or name != "input"}
    return list(steps(*args[1:], **options))


def _value(graph: fx.GraphModule, node: fx.Node) -> Any:
    """A parameter or buffer that a node reads, or the node."""
    if node.op != "get_attr":
        return node
    value: Any = graph
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return value


def _put_in_place(graph: fx.GraphModule, node: fx.Node, modules: list[nn.Module]) -> None:
    """Calls modules one after the other where a step was, on the activation it read."""
    before = next(used for used in node.all_input_nodes if used.op != "get_attr")
    owner = list(node.meta.get("nn_module_stack", {}))
    prefix = f"{owner[-1]}." if owner and owner[-1] else ""
    for number, module in enumerate(modules):
        target = f"{prefix}{node.name}" + (f"_{number}" if number else "")
        while _exists(graph, target):
            target += "_step"
        graph.add_submodule(target, module.eval())
        with graph.graph.inserting_before(node):
            before = graph.graph.call_module(target, (before,))
            before.meta = dict(node.meta)
    node.replace_all_uses_with(before)
    graph.graph.erase_node(node)


def _exists(graph: fx.GraphModule, target: str) -> bool:
    try:
        graph.get_submodule(target)
    except AttributeError:
        return False
    return True
