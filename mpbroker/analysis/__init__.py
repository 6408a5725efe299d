"""Analysis of traces, beside the broker: reading them, studies, reports, the laboratory and the benchmark
(docs/adr/0014)."""
