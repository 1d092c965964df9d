"""The scenarios: small programs over the runtime's own code, one module a subject."""
