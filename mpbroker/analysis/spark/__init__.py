"""Traces in Apache Spark: the data source `mpbtrace`, the requests frame, and the engine for what one machine cannot
hold."""
