"""What sums requests up: one machine or Spark behind one face, the same integers from both, and rollups in files."""
