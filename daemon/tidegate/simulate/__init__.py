"""Pure simulation over the decision core: engine models, traces, faults, other systems' policies and a scorecard."""
