"""Threads, queues, stealing, placement, timers' and memory's watchers."""
