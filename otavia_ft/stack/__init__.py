"""One message's execution: stacks, states, promises, the future table, the coroutine driver."""
