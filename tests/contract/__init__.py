"""One suite over all stores: what a store promises, whatever it is made of."""
