"""Experiments on streams: protocols and metrics."""
