"""How many instructions a step of learning runs, exactly: `python tools/instructions/count.py`."""
