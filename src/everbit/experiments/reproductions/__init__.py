"""The papers' tables and figures, each from one command: `everbit reproduce NAME`."""
