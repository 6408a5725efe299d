"""The controller process: alone changes topics, configs and producer-id blocks (KIP-500's division of work)."""
