"""ONNX files, which ONNX Runtime and many others run."""

from everbit.formats.exporters.onnx.network import onnx_model, save_onnx

__all__ = ["onnx_model", "save_onnx"]
