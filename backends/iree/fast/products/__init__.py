"""Large dense products on CPUs: the passes flat_products and products_in_tiles, and the files that they need."""
