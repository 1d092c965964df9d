"""The commands behind ``./ft demo`` and ``./ft doctor``; also installed as ``otavia-ft``."""
