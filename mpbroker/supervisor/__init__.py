"""The process that creates everything shared, forks all others, and starts them again when they die."""
