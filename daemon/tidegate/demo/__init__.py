"""Simulated GPUs, engines and traffic, for a machine without either."""
