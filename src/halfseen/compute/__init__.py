"""Where work runs: this process, this machine's cores, a Dask cluster."""
