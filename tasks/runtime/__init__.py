"""What every run needs: the engine, the run's record, retries, telemetry."""
