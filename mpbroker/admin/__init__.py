"""The admin process: metrics and health over HTTP."""
