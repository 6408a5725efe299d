"""Request traces: the record, the lanes processors write, the segments the tracer writes, and their readers.

Reading (record, segment, manifest, dictionary, statistics) needs the standard library alone, so that a trace can be
looked at on a machine where no broker is installed to run.
"""
