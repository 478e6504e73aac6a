"""Where rows are (memory, a store, a GPU): products with them, passes over them, samples."""
