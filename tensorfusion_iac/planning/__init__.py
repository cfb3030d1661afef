"""Pure decisions over many objects: allocation, simulation, charging, recommendation. Values in, values out."""
