"""The request path as Python sees it: thin faces over the rings of the C core. Layer 3; processors and handlers."""
