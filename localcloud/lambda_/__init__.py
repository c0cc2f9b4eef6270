"""Lambda: functions, their execution environments and the destinations of their results."""
