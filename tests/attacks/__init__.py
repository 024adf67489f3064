"""Hostile inputs, made by small generators."""
