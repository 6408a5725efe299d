"""What a request handler process does with a request: dispatch, produce, fetch, metadata, administration."""
