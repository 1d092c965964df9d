"""Tools that look for concurrency bugs in the runtime: real threads, an explorer, mutants."""
