"""The wire's two ends: the agent's report client and the controller's report endpoint."""
