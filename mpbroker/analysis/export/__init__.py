"""A trace for other programs: Perfetto, OpenTelemetry collectors, HdrHistogram's tools, readers of Kafka's request log.

Runs in the process of a command. Beside the layers: imports errors, trace.record, the engine package and itself.
"""
