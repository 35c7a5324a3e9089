"""The passes flat_products and products_in_tiles, for matrix products on CPUs. The latter uses the other files."""
