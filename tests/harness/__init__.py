"""What tests share: a real broker started by exec, raw connections to it."""
