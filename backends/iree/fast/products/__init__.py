"""Matrix products on CPUs: the passes flat_products and products_in_tiles. The other files are parts of the latter."""
