"""EventBridge: rules, schedules and the delivery of events to targets."""
