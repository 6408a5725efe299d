"""The command line: one file per command, imported only when it is called. Runs in the process the user starts."""
