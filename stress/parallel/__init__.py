"""The parallel stress engine: real threads, one child process a case, exact oracles."""
