"""What a user subclasses: kinds of actors, routing, lifecycle hooks, cleaners."""
