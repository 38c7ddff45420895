"""What a daemon needs to run: clock, loop, retry, lifecycle, log, outbound HTTP, errors."""
