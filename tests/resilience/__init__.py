"""What goes wrong: faults, kills, outages, races; the simulation, the model and the mutants that prove both bite."""
