"""The planner's process interface (`tidegate plan --stdio`): observations as lines of JSON in, plans out. Pure."""
