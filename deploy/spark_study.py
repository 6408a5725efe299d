"""The `mpbroker` command for spark-submit, where the package itself comes as a wheel:

    spark-submit --master spark://host:7077 --py-files mpbroker-0.1.0-….whl deploy/spark_study.py \\
        trace study latency throughput --in /shared/traces --out report --engine spark

Drivers and workers need numpy, pyarrow, pandas, and for the report plotly. Paths are read where the workers run: a file
system that all of them share. Compacted traces (`mpbroker trace compact`) are read by the JVM alone and need no wheel
there.
"""

import sys

from mpbroker.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
