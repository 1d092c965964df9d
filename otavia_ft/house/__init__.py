"""One actor's seat: states, mailboxes, dispatch order, barrier, batch, priority, lifecycle."""
