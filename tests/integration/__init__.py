"""The parts on real servers: sources, bounds, ticks, operators, telemetry, workers."""
